"""Find executors by name, and check that spiders say what their executors declare (SPEC.md B8).

Executors are built in, of installed packages, and of files dropped into a folder. A package names
its own under the entry point group ``crawlfleet.executors``; in a folder every ``*.py`` that does
not begin with an underscore is read. Nothing is imported before it is asked for. What is broken is
listed (:attr:`Registry.problems`) and breaks nothing else; a name that two have belongs to neither,
so that no spider runs what it does not mean.

An operator also names here the packages whose Scrapy spiders may run (SPEC.md E1): whoever wires a
worker says so without importing what reads pages, and a fleet without such spiders never loads
Scrapy.
"""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.secret import filled_with, problems_with, references
from crawlfleet.config.rule_validation import MAX_DEPTH, shape_problems
from crawlfleet.crawling.executors.base import Executor, Parameters, UsedRule
from crawlfleet.kernel.errors import ConfigError, InvalidRequestError, Problem
from crawlfleet.kernel.validation import decode, named

#: Checks a rule's selectors, as the extractor does.
RuleCheck: TypeAlias = Callable[[Rule], list[Problem]]

_PLACE: Final = "parameters"


def read_parameters(
    executor: type[Executor[Any]], spider: Spider
) -> tuple[Parameters | None, list[Problem]]:
    """Read the parameters as the executor's struct, or None and every error with its place."""
    try:
        written = msgspec.json.encode(spider.parameters)
    except (TypeError, ValueError, RecursionError) as error:
        return None, [Problem(_PLACE, f"cannot be written as JSON: {error}")]
    parameters, problems = decode(written, executor.Parameters)
    return parameters, [_placed(problem) for problem in problems]


def without_secrets(spider: Spider) -> Spider:
    """Return a spider that has a word in the place of each secret that it refers to."""
    names = {name: name for _, name in references(spider.parameters)}
    if not names:
        return spider
    return replace(spider, parameters=filled_with(spider.parameters, names))


def parameters_problems(
    executor: type[Executor[Any]], spider: Spider, check_rule: RuleCheck
) -> list[Problem]:
    """List every error of a spider of this executor; places start at the spider."""
    wrong = [_placed(problem) for problem in problems_with(spider.parameters)]
    parameters, problems = read_parameters(executor, without_secrets(spider))
    if wrong or parameters is None:
        return wrong + problems
    try:
        problems = [_placed(problem) for problem in executor.problems(parameters)]
        for used in executor.used_rules(parameters):
            problems += _rule_problems(used, check_rule)
        problems += _key_problems(spider, executor.fields(parameters))
    except Exception as error:  # noqa: BLE001  one executor must not end everyone's reading
        problems.append(Problem(_PLACE, f"cannot be checked ({type(error).__name__}: {error})"))
    return list(dict.fromkeys(problems))


def _rule_problems(used: UsedRule, check_rule: RuleCheck) -> Iterator[Problem]:
    found = shape_problems(used.rule)
    if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
        blamed = {problem.field for problem in found}  # one error is listed once
        found += [each for each in check_rule(used.rule) if each.field not in blamed]
    for problem in found:
        field = problem.field
        for at, place in used.places.items():
            if field == at or field.startswith((f"{at}.", f"{at}[")):
                field = place + field[len(at) :]
                break
        yield _placed(Problem(field, problem.message))


def _key_problems(spider: Spider, fields: Any) -> Iterator[Problem]:
    if fields is None:
        return
    there = list(fields)
    for index, name in enumerate(spider.key):
        if name not in there:
            message = f"{name!r} is no field of the records; they have {named(there, name)}"
            yield Problem(f"key[{index}]", message)


def _placed(problem: Problem) -> Problem:
    dot = "" if not problem.field or problem.field.startswith("[") else "."
    return Problem(f"{_PLACE}{dot}{problem.field}", problem.message)


GROUP: Final = "crawlfleet.executors"
#: Where each of ours is. ``scrapy`` needs the extra of that name.
BUILT_IN: Final[dict[str, str]] = {
    "csv": "crawlfleet.crawling.executors.csv:CsvFile",
    "detail": "crawlfleet.crawling.executors.page:Detail",
    "feed": "crawlfleet.crawling.executors.feed:Feed",
    "feed_items": "crawlfleet.crawling.executors.feed_items:FeedItems",
    "json": "crawlfleet.crawling.executors.json:JsonFile",
    "paginated_list": "crawlfleet.crawling.executors.page:PaginatedList",
    "scrapy": "crawlfleet.crawling.executors.scrapy_spider:ScrapySpider",
    "sitemap": "crawlfleet.crawling.executors.sitemap:Sitemap",
    "url_list": "crawlfleet.crawling.executors.sitemap:UrlList",
    "xml": "crawlfleet.crawling.executors.xml:XmlFile",
}

AnyExecutor: TypeAlias = Executor[Any]
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


class Registry:
    """The executors by name. Safe to share between threads.

    Files are dropped into ``folder``, which need not exist; ``installed`` packages are asked.

    >>> Registry().find("sitemap").__name__
    'Sitemap'
    """

    def __init__(self, folder: Path | None = None, *, installed: bool = True) -> None:
        self._folder = folder
        self._installed = installed
        self._lock = RLock()
        self._found: dict[str, _Source] | None = None
        self._problems: list[Problem] = []

    def forget_others(self) -> None:
        """Have none but the built-in executors, and look for no other."""
        with self._lock:
            self._folder, self._installed, self._found = None, False, None

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted; one that two have stands here, too."""
        return tuple(sorted(self._sources()))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """List problems of files and packages, and names that two have."""
        self._sources()
        return tuple(self._problems)

    def find(self, name: str) -> type[AnyExecutor]:
        """Return the executor of that name.

        Raises ConfigError: there is none, two have the name, or it cannot be imported; says which.
        """
        source = self._sources().get(name)
        if source is None:
            message = f"{name!r} is no executor here; there are {named(self.names(), name)}"
            broken = [str(problem) for problem in self._problems]
            raise ConfigError([Problem("executor", "; ".join([message, *broken[:3]]))])
        if source.twice:
            raise ConfigError([Problem("executor", f"{name!r} is {source.twice}")])
        try:
            return source.load()
        except _BrokenError as error:
            message = f"{name!r} of {source.where} cannot be used: {error}"
            raise ConfigError([Problem("executor", message)]) from error

    def _sources(self) -> dict[str, _Source]:
        with self._lock:
            if self._found is None:
                found: dict[str, _Source] = {}
                for source in self._all():
                    other = found.get(source.name)
                    if other is None:
                        found[source.name] = source
                        continue
                    twice = f"the name of two executors: {other.where} and {source.where}"
                    found[source.name] = other._replace(twice=other.twice or twice)
                    self._problems.append(Problem(source.where, f"{source.name!r} is {twice}"))
                self._found = found
            return self._found

    def _all(self) -> Iterator[_Source]:
        for name, place in BUILT_IN.items():
            yield _Source(
                name, "crawlfleet", partial(_named, name, partial(pkgutil.resolve_name, place))
            )
        if self._installed:
            yield from _of_packages()
        for file in sorted(self._folder.glob("*.py")) if self._folder is not None else ():
            if not file.name.startswith("_"):
                yield from self._of_file(file)

    def _of_file(self, file: Path) -> Iterator[_Source]:
        where = f"{file.parent.name}/{file.name}"
        try:
            classes = _executors_of(_import_file(file))
        except _BrokenError as error:
            self._problems.append(Problem(where, str(error)))
            return
        if not classes:
            self._problems.append(Problem(where, "defines no Executor"))
        for executor in classes:
            try:
                yield _Source(_checked(executor).name, where, partial(_checked, executor))
            except _BrokenError as error:
                self._problems.append(Problem(where, str(error)))


def _of_packages() -> Iterator[_Source]:
    # It reads e-mail, for packages' metadata: a tenth of what the start of a reader would take.
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP)):
        where = f"package {point.dist.name}" if point.dist else f"entry point {point.value}"
        yield _Source(point.name, where, partial(_named, point.name, point.load))


class _Source(NamedTuple):
    name: str
    where: str
    load: Callable[[], type[AnyExecutor]]
    twice: str = ""


class _BrokenError(Exception):
    """The class is no executor; says why."""


def _named(name: str, load: Callable[[], Any]) -> type[AnyExecutor]:
    try:
        executor = load()
    except (Exception, SystemExit) as error:
        raise _BrokenError(_sentence(error)) from error
    if not (inspect.isclass(executor) and issubclass(executor, Executor)):
        raise _BrokenError(f"{executor!r} is no class derived from Executor")
    if _checked(executor).name != name:
        raise _BrokenError(f"{executor.__name__} calls itself {executor.name!r}")
    return executor


def _checked(executor: type[AnyExecutor]) -> type[AnyExecutor]:
    name = getattr(executor, "name", None)
    if not isinstance(name, str) or not _NAME.match(name):
        raise _BrokenError(
            f"{executor.__name__} has no name of lower-case letters, digits and underscores"
        )
    declared: object = executor.Parameters
    if not (isinstance(declared, type) and issubclass(declared, Parameters)):
        raise _BrokenError(f"{executor.__name__}.Parameters is not derived from Parameters")
    try:
        msgspec.json.Decoder(declared)
    except (TypeError, NameError) as error:
        raise _BrokenError(f"{executor.__name__}.Parameters: {error}") from error
    return executor


def _import_file(file: Path) -> Any:
    """Import a file under a name of its own: it must not pass for a package's."""
    name = f"crawlfleet_dropped_in_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _BrokenError("is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # msgspec resolves annotations by it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _BrokenError(_sentence(error)) from error
    return module


def _executors_of(module: Any) -> list[type[AnyExecutor]]:
    """List the classes that the module itself defines, bases of others aside."""
    return [
        each
        for each in vars(module).values()
        if inspect.isclass(each)
        and issubclass(each, Executor)
        and each.__module__ == module.__name__
        and not inspect.isabstract(each)
    ]


def _sentence(error: BaseException) -> str:
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {said[:300]}{line}"


#: The executors there are: built in, of packages, and of files dropped beside the consumer's
#: handler. Lambda and the local cloud run where that folder is.
REGISTRY: Final = Registry(Path("functions/consumer/executors"))


def starts_of(spider: Spider, registry: Registry = REGISTRY) -> tuple[str, ...]:
    """List the URLs that a crawl by this spider begins with, where its parameters name any.

    Raises InvalidRequestError: its executor cannot be had here, or cannot say it.
    """
    try:
        executor = registry.find(spider.executor)
        parameters, problems = read_parameters(executor, without_secrets(spider))
        if parameters is not None:
            return tuple(map(str, executor.starts(parameters)))
        why = "; ".join(map(str, problems))
    except ConfigError as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001  it is the operator's code
        why = f"{type(error).__name__}: {error}"
    raise InvalidRequestError.of("rule", f"its executor cannot say where it begins: {why}"[:500])


def check_spider(
    spider: Spider,
    prefix: str = "",
    *,
    registry: Registry = REGISTRY,
    check_rule: RuleCheck = lambda _: [],  # for those who carry no parser
) -> list[Problem]:
    r"""List every error of a spider; none for one that can be put in force (SPEC.md B8).

    ``prefix`` leads the names of the fields (``spiders.news.``); ``check_rule`` checks the
    selectors among the parameters.

    >>> from crawlfleet.config.documents.rule import Spider
    >>> wrong = Spider(executor="url_list", parameters={"max_urls": 0, "role": "page"})
    >>> print(*check_spider(wrong, "spiders.urls."), sep="\n")
    spiders.urls.parameters.role: is no field of this document; it has rule, comment, ...
    spiders.urls.parameters.rule: is missing
    spiders.urls.parameters.max_urls: expected a whole number >= 1 (0)
    """
    try:
        executor = registry.find(spider.executor)
    except ConfigError as error:
        found = list(error.problems)
    else:
        found = parameters_problems(executor, spider, check_rule)
    return [Problem(f"{prefix}{problem.field}", problem.message) for problem in found]


#: The package that configurations may name wherever nothing else is said: the sample's.
SAMPLE_PACKAGE: Final = "spiders"

_packages: set[str] = {SAMPLE_PACKAGE}
_folders: list[Path] = []


def allow_spiders(*packages: str, folder: Path | None = None) -> None:
    """Let configurations name spiders of these packages, beside those that they may name already.

    ``packages`` have no dots. ``folder`` is where they are, with Scrapy and what it requires, when
    they are not where Python looks anyway. It is looked into only when the first spider is made:
    drivers import more than they need where they find it, and Scrapy brings what they would find.
    """
    _packages.update(packages)
    if folder is not None and folder not in _folders:
        _folders.append(folder)


def allowed() -> tuple[str, ...]:
    """Return the allowed packages, sorted."""
    return tuple(sorted(_packages))


def is_allowed(module: str) -> bool:
    """Tell whether a module is one of these packages, or within one.

    >>> is_allowed("spiders.tools"), is_allowed("spiders_of_others"), is_allowed("os")
    (True, False, False)
    """
    return module.partition(".")[0] in _packages


def look_into_folders() -> None:
    """Let Python find what the folders hold, after everything that it finds already."""
    for folder in _folders:
        place = str(folder.absolute())
        if folder.is_dir() and place not in sys.path:
            sys.path.append(place)
