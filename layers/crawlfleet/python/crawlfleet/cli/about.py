"""``crawlfleet completion`` and ``crawlfleet version``: about the program itself."""

import platform

import click

from crawlfleet import __version__
from crawlfleet.cli import console
from crawlfleet.cli.terminal import say


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@console.json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> int:
    """Print what completes commands in your shell: names, options and their values.

    \b
    bash:  eval "$(crawlfleet completion bash)"           in ~/.bashrc
    zsh:   eval "$(crawlfleet completion zsh)"            in ~/.zshrc
    fish:  crawlfleet completion fish > ~/.config/fish/completions/crawlfleet.fish
    """  # noqa: D301  click reads this backspace: the lines below it are not to be wrapped
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click knows these three
    root = ctx.find_root().command
    source = kind(root, {}, "crawlfleet", "_CRAWLFLEET_COMPLETE").source()
    found = {"shell": shell, "source": source}
    return console.answer(found, as_json, lambda _: say(source))


@click.command()
@console.json_option
def version(as_json: bool) -> int:
    """Show the versions of Crawlfleet and Python."""
    found = {"crawlfleet": __version__, "python": platform.python_version()}
    said = "crawlfleet {crawlfleet}, Python {python}".format_map(found)
    return console.answer(found, as_json, lambda _: say(said))
