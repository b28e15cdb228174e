// The console: who is signed in, where one is, and the page of that address.
import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { type Session, forgetAnswers, signOut, useLoad, whenSignedOut, whoAmI } from "./api.ts";
import { zoneName } from "./format.ts";
import { Configuration } from "./pages/configuration.tsx";
import { DeadLetterPage, DeadLetters } from "./pages/dead_letters.tsx";
import { FleetPage, Incidents, Tenants } from "./pages/fleet.tsx";
import { JobPage, Jobs, StartJob } from "./pages/jobs.tsx";
import { Overview } from "./pages/overview.tsx";
import { Records, RequestPage, Requests } from "./pages/requests.tsx";
import { Rules } from "./pages/rules.tsx";
import { SchedulePage, Schedules } from "./pages/schedules.tsx";
import { SignIn } from "./pages/sign_in.tsx";
import { Failure, Head, Shown } from "./parts.tsx";
import { type Route, href, parse } from "./route.ts";
import type { Biz } from "./types.ts";

const OF_BIZ: [string, string][] = [
  ["jobs", "Jobs"],
  ["requests", "Requests"],
  ["records", "Records"],
  ["dead-letters", "Dead letters"],
  ["rules", "Rules"],
  ["schedules", "Schedules"],
];

function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  // Before anything else can happen: an address that changed before somebody listened would be lost.
  useLayoutEffect(() => {
    const follow = () => {
      setRoute(parse(location.hash));
      scrollTo(0, 0);
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}

function App() {
  const [session, setSession] = useState<Session | null>();
  const [error, setError] = useState<Error>();
  const [ended, setEnded] = useState(false);
  const look = async () => {
    setError(undefined);
    try {
      setSession(await whoAmI());
    } catch (failure) {
      setError(failure as Error);
    }
  };
  useEffect(() => {
    whenSignedOut(() => {
      setEnded(true);
      setSession(null);
    });
    void look();
  }, []);
  if (error)
    return (
      <main class="alone">
        <h1>Crawlfleet</h1>
        <Failure error={error} again={() => void look()} />
      </main>
    );
  if (session === undefined)
    return (
      <main class="alone">
        <p role="status">Loading …</p>
      </main>
    );
  if (session === null)
    return (
      <SignIn
        ended={ended}
        onSignedIn={(found) => {
          setEnded(false);
          setSession(found);
        }}
      />
    );
  return (
    <Shell
      session={session}
      onLeft={() => {
        forgetAnswers();
        setSession(null);
      }}
    />
  );
}

function Shell({ session, onLeft }: { session: Session; onLeft: () => void }) {
  const route = useRoute();
  const bizs = useLoad<{ bizs: Biz[] }>("bizs");
  const [error, setError] = useState<Error>();
  const [chosen, setChosen] = useState("");
  const named = route.parts[0] === "b" ? route.parts[1] : undefined;
  useEffect(() => {
    if (named) setChosen(named);
  }, [named]);
  const biz = named ?? (chosen || bizs.data?.bizs[0]?.name);
  const leave = async () => {
    try {
      await signOut();
      onLeft();
    } catch (failure) {
      setError(failure as Error);
    }
  };
  const here = route.parts.join("/");
  const link = (parts: string[], label: string) => (
    <a
      key={label}
      href={href(parts)}
      aria-current={
        here === parts.join("/") || (parts.length > 0 && here.startsWith(`${parts.join("/")}/`))
          ? "page"
          : undefined
      }
    >
      {label}
    </a>
  );
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.querySelector<HTMLElement>("h1")?.focus();
      }}>
        Skip to the page
      </a>
      <div class="top">
        <span class="brand">Crawlfleet</span>
        <span class="who">
          {session.tenant}
          {session.operator && " · operator"} · stage {session.stage} · times in {zoneName()}
        </span>
        <button type="button" class="quiet" onClick={() => void leave()}>
          Sign out
        </button>
      </div>
      <nav class="side" aria-label="Pages">
        {link([], "Overview")}
        {biz && (
          <>
            <label>
              <span>Biz</span>
              <select
                value={biz}
                onChange={(event) => {
                  const page = route.parts[0] === "b" ? (route.parts[2] ?? "jobs") : "jobs";
                  location.hash = href(["b", event.currentTarget.value, page]);
                }}
              >
                {[...new Set([biz, ...(bizs.data?.bizs.map((one) => one.name) ?? [])])].map((name) => (
                  <option key={name} value={name} selected={name === biz}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
            {OF_BIZ.map(([page, label]) => link(["b", biz, page], label))}
          </>
        )}
        {bizs.data && !biz && <p class="empty">This tenant has no biz yet.</p>}
        {link(["fleet"], "Fleet")}
        {link(["incidents"], "Incidents")}
        {link(["configuration"], "Configuration")}
        {session.operator && link(["tenants"], "Tenants")}
      </nav>
      <main id="main">
        {error && <Failure error={error} />}
        {bizs.error && <Shown of={bizs}>{() => null}</Shown>}
        <Pages route={route} session={session} bizs={bizs.data?.bizs ?? []} biz={biz} />
      </main>
    </>
  );
}

function Pages({
  route,
  session,
  bizs,
  biz,
}: {
  route: Route;
  session: Session;
  bizs: Biz[];
  biz: string | undefined;
}) {
  const { parts, query } = route;
  const [first, second, page, id] = parts;
  if (!first) return <Overview session={session} bizs={bizs} />;
  if (first === "fleet") return <FleetPage session={session} biz={biz} />;
  if (first === "incidents") return <Incidents query={query} />;
  if (first === "configuration") return <Configuration query={query} />;
  if (first === "tenants" && session.operator) return <Tenants />;
  if (first === "b" && second) {
    const facts = { biz: second, query };
    const named = bizs.find((one) => one.name === second);
    if (page === "jobs" && id === "new") return <StartJob biz={second} known={named} />;
    if (page === "jobs" && id) return <JobPage key={id} biz={second} id={id} />;
    if (page === "jobs") return <Jobs {...facts} />;
    if (page === "requests" && id) return <RequestPage key={id} biz={second} id={id} />;
    if (page === "requests") return <Requests {...facts} />;
    if (page === "records") return <Records {...facts} />;
    if (page === "dead-letters" && id) return <DeadLetterPage key={id} biz={second} id={id} />;
    if (page === "dead-letters") return <DeadLetters key={second} {...facts} />;
    if (page === "rules")
      return <Rules biz={second} rule={id} tenant={session.tenant} known={named} />;
    if (page === "schedules" && id) return <SchedulePage key={id} biz={second} name={id} />;
    if (page === "schedules") return <Schedules biz={second} />;
  }
  return (
    <>
      <Head title="No such page" />
      <p>
        Nothing is at this address. <a href={href([])}>Overview</a>
      </p>
    </>
  );
}

const place = document.getElementById("app");
if (place) render(<App />, place);
