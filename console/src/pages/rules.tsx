// Rules: the editor beside what the rule yields of a page, coverage over versions, history.
import { useState } from "preact/hooks";
import { send, useLoad } from "../api.ts";
import { number, percent, span } from "../format.ts";
import { Failure, Head, Shown, State, Table, Value } from "../parts.tsx";
import { href, path } from "../route.ts";
import type { Biz, Coverage, Tried } from "../types.ts";
import { DocumentEditor, parsed } from "./document.tsx";

export function Rules({
  biz,
  rule,
  tenant,
  known,
}: {
  biz: string;
  rule: string | undefined;
  tenant: string;
  known: Biz | undefined;
}) {
  return (
    <>
      <Head title={rule ? `Rule ${rule} of ${biz}` : `Rules of ${biz}`} />
      <nav aria-label="Rules" class="tabs">
        {(known?.rules ?? []).map((name) => (
          <a key={name} href={href(["b", biz, "rules", name])} aria-current={name === rule ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      {known && known.rules.length === 0 && <p class="empty">This biz has no rule.</p>}
      {rule && <Rule key={`${biz}/${rule}`} biz={biz} rule={rule} tenant={tenant} />}
      <CoverageOf biz={biz} rule={rule} />
    </>
  );
}

function Rule({ biz, rule, tenant }: { biz: string; rule: string; tenant: string }) {
  return (
    <DocumentEditor
      at={`bizs/${tenant}/${biz}/rules/${rule}`}
      beside={(edited) => <Trial biz={biz} rule={rule} text={edited} />}
    />
  );
}

function Trial({ biz, rule, text }: { biz: string; rule: string; text: string | undefined }) {
  const [found, setFound] = useState<Tried>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const run = async (form: HTMLFormElement) => {
    const given = new FormData(form);
    const [url, body] = [String(given.get("url") ?? "").trim(), String(given.get("body") ?? "")];
    setBusy(true);
    setError(undefined);
    try {
      // What stands in the editor is tried, in force or not.
      const order = { rule: text === undefined ? rule : parsed(text) };
      const on = body ? { page: { body, ...(url ? { url } : {}) } } : { url };
      setFound(await send<Tried>("POST", path([biz, "rules", "try"]), { ...order, ...on }));
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  return (
    <section class="trial">
      <h2>Try it</h2>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void run(event.currentTarget);
        }}
      >
        <label>
          <span>URL of a page</span>
          <input name="url" placeholder="https://…" spellcheck={false} />
        </label>
        <label>
          <span>Or the page itself</span>
          <textarea name="body" rows={5} spellcheck={false} />
          <small>Without it the URL is fetched as a worker would: politely, and only where robots.txt allows it.</small>
        </label>
        <button type="submit" disabled={busy}>
          {busy ? "Trying …" : text === undefined ? "Try the rule" : "Try the edited rule"}
        </button>
      </form>
      {error && <Failure error={error} />}
      {found && <Yield of={found} />}
    </section>
  );
}

function Yield({ of }: { of: Tried }) {
  return (
    <section aria-label="What it yields">
      {of.error && <Failure error={new Error(of.error.message)} />}
      {of.fetched && (
        <p class="muted">
          HTTP {of.fetched.status}, {number(of.fetched.bytes)} bytes in {span(of.fetched.seconds)}
        </p>
      )}
      {(of.problems?.length ?? 0) > 0 && (
        <ul class="failure">
          {of.problems?.map((one, index) => (
            <li key={index}>
              <Value of={one} />
            </li>
          ))}
        </ul>
      )}
      <p>
        {number(of.record_count ?? of.records.length)} records, {number(of.links?.length ?? 0)} links to follow
      </p>
      <Table
        caption="Fields"
        empty="No field was found."
        rows={of.coverage ?? []}
        id={(row) => row.name}
        columns={[
          { head: "Field", cell: (row) => <code>{row.name}</code> },
          { head: "Records", numeric: true, cell: (row) => percent(row.share) },
          { head: "Why not", wide: true, cell: (row) => row.why ?? "" },
        ]}
      />
      {of.records.slice(0, 20).map((one, index) => (
        <Value key={index} of={one} />
      ))}
    </section>
  );
}

function CoverageOf({ biz, rule }: { biz: string; rule: string | undefined }) {
  const coverage = useLoad<{ coverage: Coverage[] }>(path([biz, "coverage"]), 30);
  return (
    <section>
      <h2>Coverage</h2>
      <Shown of={coverage}>
        {(one) => (
          <Table
            caption="In how many records each field has a value, by version"
            empty="Nothing was read by a rule of this biz yet."
            rows={one.coverage.filter((each) => !rule || each.rule === rule)}
            id={(row) => `${row.rule} ${row.version}`}
            columns={[
              { head: "Rule", cell: (row) => <a href={href(["b", biz, "rules", row.rule])}>{row.rule}</a> },
              { head: "Version", cell: (row) => <code>{row.version}</code> },
              { head: "In force", cell: (row) => (row.current ? <State of="current" /> : "no") },
              { head: "Pages", numeric: true, cell: (row) => number(row.pages) },
              { head: "Records", numeric: true, cell: (row) => number(row.records) },
              { head: "Rejected", numeric: true, cell: (row) => number(row.rejected) },
              {
                head: "Fields",
                wide: true,
                cell: (row) => row.fields.map((field) => `${field.name} ${percent(field.share)}`).join(", "),
              },
              { head: "Empty", cell: (row) => row.empty.join(", ") || "none" },
            ]}
          />
        )}
      </Shown>
    </section>
  );
}
