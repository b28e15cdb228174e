// The configuration: its documents, and the one that is chosen.
import { useLoad } from "../api.ts";
import { Head, Shown } from "../parts.tsx";
import { href } from "../route.ts";
import { DocumentEditor } from "./document.tsx";

export function Configuration({ query }: { query: Record<string, string> }) {
  const list = useLoad<{ revision: string; documents: { path: string; bytes: number }[] }>("config/documents");
  const chosen = query["path"];
  return (
    <>
      <Head title={chosen ? `Configuration: ${chosen}` : "Configuration"} />
      <Shown of={list}>
        {(one) => (
          <div class="beside">
            <nav aria-label="Documents">
              <ul class="plain tree">
                {one.documents.map((document) => (
                  <li key={document.path}>
                    <a
                      href={href(["configuration"], { path: document.path })}
                      aria-current={document.path === chosen ? "page" : undefined}
                    >
                      {document.path}
                    </a>
                  </li>
                ))}
              </ul>
              {one.documents.length === 0 && <p class="empty">There is no document.</p>}
            </nav>
            <div>{chosen ? <DocumentEditor at={chosen} /> : <p>Choose a document.</p>}</div>
          </div>
        )}
      </Shown>
    </>
  );
}
