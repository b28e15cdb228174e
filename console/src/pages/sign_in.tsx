// Signing in: the key is sent once, in a header, and stays nowhere in the page.
import { useState } from "preact/hooks";
import { type Session, signIn } from "../api.ts";
import { Failure } from "../parts.tsx";

export function SignIn({
  ended,
  onSignedIn,
}: {
  ended: boolean;
  onSignedIn: (session: Session) => void;
}) {
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const submit = async (form: HTMLFormElement) => {
    const key = String(new FormData(form).get("key") ?? "").trim();
    setError(undefined);
    if (!/^[\x21-\x7e]{1,200}$/.test(key)) {
      setError(new Error("An API key is one word of letters, digits and signs."));
      return;
    }
    setBusy(true);
    try {
      onSignedIn(await signIn(key));
      form.reset();
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <main class="alone">
      <h1>Crawlfleet</h1>
      {ended && <p role="status">The session has ended. Sign in again to go on where you were.</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit(event.currentTarget);
        }}
      >
        <label>
          <span>API key of your tenant</span>
          <input name="key" type="password" autocomplete="current-password" required spellcheck={false} />
        </label>
        <button type="submit" disabled={busy}>
          {busy ? "Signing in …" : "Sign in"}
        </button>
      </form>
      {error && <Failure error={error} />}
      <p class="muted">The session lasts four hours, and ends at once when the key is taken away.</p>
    </main>
  );
}
