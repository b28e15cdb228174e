// Addresses of pages: `#/b/docs/jobs?state=done`. All that a page shows is in its address.

export type Route = { parts: string[]; query: Record<string, string> };

/** Parse the hash of an address; what cannot be decoded is taken as it stands. */
export function parse(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const place = mark < 0 ? text : text.slice(0, mark);
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)));
  return { parts: place.split("/").filter(Boolean).map(decoded), query };
}

/** Format an address; empty values of the query are left out. */
export function href(parts: readonly string[], query: Record<string, string | undefined> = {}): string {
  const kept = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const asked = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${asked}`;
}

/** Format a path of the API below its address, with each part encoded. */
export function path(
  parts: readonly string[],
  query: Record<string, string | number | undefined> = {},
): string {
  const kept = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]): [string, string] => [name, String(value)]);
  const asked = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `${parts.map(encodeURIComponent).join("/")}${asked}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
