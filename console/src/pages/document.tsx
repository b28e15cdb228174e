// One document of the configuration, or a part of one: edit, check, put in force, history, back.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, send, useLoad } from "../api.ts";
import { Editor } from "../editor.tsx";
import { number } from "../format.ts";
import { Act, Failure, Shown, Table, Time } from "../parts.tsx";
import { path } from "../route.ts";
import type { Changed, Difference, Page, Version } from "../types.ts";

type Content = { path: string; revision: string; content: unknown };

/** What the editor holds, as JSON. Its mistakes are told with their place. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`This is no JSON: ${error instanceof Error ? error.message : ""}`, { cause: error });
  }
}

export function DocumentEditor({
  at,
  beside,
}: {
  at: string;
  /** What stands beside the editor; it is given the text where that was edited. */
  beside?: (edited: string | undefined) => ComponentChildren;
}) {
  // Another environment of the platform may know the change some moments later: it is asked again.
  const [wanted, setWanted] = useState("");
  const [isBehind, setBehind] = useState(false);
  const document = useLoad<Content>(path(["config", "document"], { path: at }), isBehind ? 1 : 0);
  const known = document.data?.revision ?? "";
  if (wanted && known < wanted !== isBehind) setBehind(!isBehind);
  return (
    <Shown of={document}>
      {(one) => (
        <Edited key={`${at} ${one.revision}`} of={one} beside={beside} onChanged={setWanted} />
      )}
    </Shown>
  );
}

function Edited({
  of,
  beside,
  onChanged,
}: {
  of: Content;
  beside: ((edited: string | undefined) => ComponentChildren) | undefined;
  onChanged: (revision: string) => void;
}) {
  const before = JSON.stringify(of.content, null, 2);
  const [text, setText] = useState(before);
  const [why, setWhy] = useState("");
  const [checked, setChecked] = useState<Changed>();
  const change = (dryRun: boolean) =>
    send<Changed>("POST", path(["config"]), {
      changes: [{ path: of.path, content: parsed(text) }],
      revision: of.revision,
      why,
      dry_run: dryRun,
    });
  const edit = (changed: string) => {
    setText(changed);
    setChecked(undefined);
  };
  return (
    <section class="document">
      <div class={beside ? "halves" : ""}>
        <Editor label={`Document ${of.path}`} text={text} onChange={edit} />
        {beside?.(text === before ? undefined : text)}
      </div>
      <div class="tools">
        <Act
          label="Check"
          act={async () => {
            const found = await change(true);
            setChecked(found);
            return found.differences.length ? "It may be put in force." : "Nothing would change.";
          }}
        />
        <label class="inline">
          <span>Why</span>
          <input value={why} onInput={(event) => setWhy(event.currentTarget.value)} maxLength={500} />
        </label>
        <Act
          label="Put in force"
          disabled={text === before}
          ask={<p>New requests follow it within seconds. History says who changed what, and goes back.</p>}
          act={async () => {
            const did = await change(false);
            onChanged(did.revision);
            return `In force within ${did.in_force_seconds} s.`;
          }}
        />
        <Act
          label="Undo edits"
          disabled={text === before}
          act={async () => {
            edit(before);
            return "";
          }}
        />
      </div>
      {checked && <Touched of={checked} />}
      <History at={of.path.split("/").slice(0, of.path.startsWith("bizs/") ? 3 : 2).join("/")} onChanged={onChanged} />
    </section>
  );
}

function Touched({ of }: { of: Changed }) {
  return (
    <section aria-label="What would change">
      <Differences of={of.differences} />
      {of.touched.length > 0 && (
        <Table
          caption="Open work that it touches"
          empty=""
          rows={of.touched}
          id={(row) => `${row.tenant}/${row.biz}`}
          columns={[
            { head: "Biz", cell: (row) => `${row.tenant}/${row.biz}` },
            { head: "Requests", numeric: true, cell: (row) => number(row.requests) },
            { head: "Jobs", numeric: true, cell: (row) => number(row.jobs) },
            { head: "Schedules", numeric: true, cell: (row) => number(row.schedules) },
            { head: "Subscriptions", numeric: true, cell: (row) => number(row.subscriptions) },
          ]}
        />
      )}
    </section>
  );
}

function Differences({ of }: { of: readonly Difference[] }) {
  if (!of.length) return <p class="empty">There is no difference.</p>;
  return (
    <>
      {of.map((one) => (
        <figure key={one.path} class="diff">
          <figcaption>
            {one.path}: {one.change}
          </figcaption>
          <pre tabIndex={0} aria-label={`Difference of ${one.path}`}>
            {one.diff.split("\n").map((line, index) => (
              <span key={index} class={line.startsWith("+") ? "added" : line.startsWith("-") ? "taken" : ""}>
                {line}
                {"\n"}
              </span>
            ))}
          </pre>
        </figure>
      ))}
    </>
  );
}

function History({ at, onChanged }: { at: string; onChanged: (revision: string) => void }) {
  const versions = useLoad<Page & { versions: Version[] }>(path(["config", "versions"], { path: at, limit: 20 }));
  const [shown, setShown] = useState<{ revision: string; differences: Difference[] }>();
  const [error, setError] = useState<Error>();
  const compare = async (revision: string) => {
    setError(undefined);
    try {
      const found = await get<{ differences: Difference[] }>(path(["config", "diff"], { from: revision, path: at }));
      setShown({ revision, differences: found.differences });
    } catch (failure) {
      setError(failure as Error);
    }
  };
  return (
    <section class="history">
      <h2>History of {at}</h2>
      {error && <Failure error={error} />}
      <Shown of={versions}>
        {(page) => (
          <Table
            caption="Its versions, the newest first"
            empty="No version of it is kept."
            rows={page.versions}
            id={(row) => row.revision}
            columns={[
              { head: "When", cell: (row) => <Time at={row.at} /> },
              { head: "Who", cell: (row) => row.by ?? "pushed" },
              {
                head: "Why",
                wide: true,
                cell: (row) => row.why || (row.rolled_back_to ? `back to ${row.rolled_back_to}` : "–"),
              },
              { head: "Changes", numeric: true, cell: (row) => number(row.changes) },
              {
                head: "Compare",
                cell: (row) => (
                  <button type="button" class="quiet" onClick={() => void compare(row.revision)}>
                    With now
                  </button>
                ),
              },
              {
                head: "Go back",
                cell: (row) => (
                  <Act
                    label="Roll back"
                    danger
                    ask={
                      <p>
                        {at} becomes as it was at <Time at={row.at} />. That is a new version.
                      </p>
                    }
                    act={async () => {
                      const did = await send<Changed>("POST", path(["config", "rollback"]), {
                        to: row.revision,
                        path: at,
                      });
                      versions.reload();
                      onChanged(did.revision);
                      return "It is as it was.";
                    }}
                  />
                ),
              },
            ]}
          />
        )}
      </Shown>
      {shown && (
        <section aria-label="Comparison">
          <h3>From {shown.revision} to now</h3>
          <Differences of={shown.differences} />
        </section>
      )}
    </section>
  );
}
