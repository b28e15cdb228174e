// An editor of JSON, by CodeMirror. It lives in a shadow root: there its styles are sheets that are
// made by script, which `style-src 'self'` lets be; in the page they would be <style> elements.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--doubtful)" },
]);
const LOOK = EditorView.theme({
  "&": { height: "100%", fontSize: "0.85rem", color: "var(--text)", backgroundColor: "var(--field)" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--muted)", border: "0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-content": { caretColor: "var(--text)" },
});

export function Editor({
  label,
  text,
  onChange,
}: {
  label: string;
  text: string;
  onChange: (text: string) => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    const box = place.current;
    if (!box) return undefined;
    const root = box.shadowRoot ?? box.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          json(),
          syntaxHighlighting(COLOURS),
          LOOK,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          // Tab leaves the editor, as it leaves any field: nobody is caught in it.
          keymap.of([...defaultKeymap, ...historyKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
    // Another text comes by the effect below.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [label]);
  useEffect(() => {
    const made = view.current;
    if (made && made.state.doc.toString() !== text)
      made.dispatch({ changes: { from: 0, to: made.state.doc.length, insert: text } });
  }, [text]);
  return <div class="editor" ref={place} />;
}
