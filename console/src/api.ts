// Calls to the API behind the session's cookie, and what pages make of their answers.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

/** The console's folder, wherever the stage serves it: the script is one of its files. */
const HERE = new URL(".", import.meta.url);
const CALL_MS = 30_000;

export type Mistake = { field?: string; message?: string };
export type Session = { tenant: string; operator: boolean; stage: string; expires_at: string };

/** A call that failed: refused, or unanswered (status 0). It is always shown as such. */
export class CallError extends Error {
  readonly status: number;
  readonly mistakes: Mistake[];

  constructor(status: number, message: string, mistakes: Mistake[] = []) {
    super(message);
    this.status = status;
    this.mistakes = mistakes;
  }
}

type Known = { etag: string; answer: unknown };
const known = new Map<string, Known>();
const MOST_KNOWN = 50;
let onSignedOut: () => void = () => undefined;

export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

export function forgetAnswers(): void {
  known.clear();
}

async function ask(address: string, init: RequestInit & { headers?: Record<string, string> }) {
  const signal = AbortSignal.any([
    AbortSignal.timeout(CALL_MS),
    ...(init.signal ? [init.signal] : []),
  ]);
  const headers = { "X-Crawlfleet-Console": "1", ...init.headers };
  try {
    return await fetch(new URL(address, HERE), {
      ...init,
      headers,
      signal,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    const late = error instanceof DOMException && error.name === "TimeoutError";
    const why = late ? `gave no answer within ${CALL_MS / 1000} s` : "cannot be reached";
    throw new CallError(0, `The platform ${why}.`);
  }
}

async function failed(response: Response): Promise<CallError> {
  let said: { detail?: string; title?: string; message?: string; errors?: Mistake[] } = {};
  try {
    said = (await response.json()) as typeof said;
  } catch {
    // No JSON: a proxy's own page, say. Its status is what is known.
  }
  const text = said.detail ?? said.title ?? said.message ?? `HTTP ${response.status}`;
  return new CallError(response.status, text, Array.isArray(said.errors) ? said.errors : []);
}

/** Read from the API; an answer that has not changed is not sent again. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const before = known.get(path);
  const response = await ask(`api/${path}`, {
    ...(signal ? { signal } : {}),
    ...(before ? { headers: { "If-None-Match": before.etag } } : {}),
  });
  if (response.status === 304 && before) return before.answer as T;
  if (!response.ok) throw await refusal(response);
  const answer = (await response.json()) as T;
  const etag = response.headers.get("ETag");
  if (etag) {
    known.delete(path);
    known.set(path, { etag, answer });
    const [oldest] = known.keys();
    if (known.size > MOST_KNOWN && oldest !== undefined) known.delete(oldest);
  }
  return answer;
}

/** Change something: the answer, or undefined where it has no content. */
export async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await ask(`api/${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
  });
  if (!response.ok) throw await refusal(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

async function refusal(response: Response): Promise<CallError> {
  const error = await failed(response);
  // A key that was taken away is refused by the API itself, as one that it does not know.
  const gone = response.status === 403 && /^(Forbidden$|the API key)/.test(error.message);
  if (response.status === 401 || gone) {
    forgetAnswers();
    onSignedOut();
  }
  return error;
}

export async function whoAmI(): Promise<Session | null> {
  const response = await ask("session", {});
  if (response.status === 401) return null;
  if (!response.ok) throw await failed(response);
  return (await response.json()) as Session;
}

export async function signIn(key: string): Promise<Session> {
  const response = await ask("session", { method: "POST", headers: { "X-Api-Key": key } });
  if (response.ok) return (await response.json()) as Session;
  if (response.status === 403) throw new CallError(403, "This API key is not valid here.");
  if (response.status === 429) throw new CallError(429, "Too many attempts. Wait a minute.");
  throw await failed(response);
}

export async function signOut(): Promise<void> {
  const response = await ask("session", { method: "DELETE" });
  if (!response.ok) throw await failed(response);
  forgetAnswers();
}

export type Loaded<T> = {
  data: T | undefined;
  error: Error | undefined;
  /** When the data came; they may be older than the error. */
  at: number | undefined;
  reload: () => void;
};

/**
 * Load a path, and again every so many seconds while the page is seen.
 *
 * What was loaded stays while the next answer is waited for, and beside an error, which says so;
 * under another path nothing of the former one is shown. A failing platform is asked less often.
 */
export function useLoad<T>(path: string | null, seconds = 0): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; error?: Error; at?: number }>({
    path,
  });
  const [turn, setTurn] = useState(0);
  const failures = useRef(0);
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = () => {
      if (!seconds || stop.signal.aborted) return;
      const wait = Math.min(seconds * 2 ** failures.current, 60);
      timer = setTimeout(() => void load(), wait * 1000);
    };
    const load = async () => {
      if (document.visibilityState === "hidden") {
        document.addEventListener("visibilitychange", () => void load(), {
          once: true,
          signal: stop.signal,
        });
        return;
      }
      try {
        const data = await get<T>(path, stop.signal);
        failures.current = 0;
        if (!stop.signal.aborted) setState({ path, data, at: Date.now() });
      } catch (error) {
        if (stop.signal.aborted) return;
        failures.current += 1;
        const shown = error instanceof Error ? error : new Error(String(error));
        setState((before) => ({ ...(before.path === path ? before : {}), path, error: shown }));
      }
      later();
    };
    void load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, seconds, turn]);
  const own = state.path === path ? state : { path };
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { data: own.data, error: own.error, at: own.at, reload };
}
