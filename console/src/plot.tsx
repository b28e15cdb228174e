// Lines over time, by uPlot; the newest values stand beside it in text.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

const DARK = matchMedia("(prefers-color-scheme: dark)");

export type Series = { name: string; token: string };

export function Plot({
  title,
  series,
  points,
  unit,
}: {
  title: string;
  series: readonly Series[];
  /** Seconds, then a list of values for each of the series. */
  points: readonly (readonly number[])[];
  unit: string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const names = series.map((one) => one.name).join(", ");
  const scheme = useScheme();
  useEffect(() => {
    const box = place.current;
    if (!box) return undefined;
    // A canvas knows no `var()`: what the page makes of it is asked of an element.
    const colour = (token: string) => {
      box.style.color = `var(--${token})`;
      return getComputedStyle(box).color;
    };
    const lines = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("muted"), grid: lines, ticks: lines };
    const plot = new uPlot(
      {
        width: box.clientWidth,
        height: 170,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          // At least a minute: two looks are no history.
          x: { range: (_, least, most) => [Math.min(least, most - 60), most] },
          y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] },
        },
        axes: [{ ...axis, values: (_, at) => at.map(clock), space: 70 }, { ...axis, size: 48 }],
        series: [
          {},
          ...series.map((one) => ({ label: one.name, stroke: colour(one.token), width: 2 })),
        ],
      },
      points as unknown as uPlot.AlignedData,
      box,
    );
    drawn.current = plot;
    const sized = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 170 }));
    sized.observe(box);
    return () => {
      sized.disconnect();
      plot.destroy();
      drawn.current = null;
    };
    // The points come by setData: a new plot for each of them would flicker.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [names, scheme]);
  useEffect(() => drawn.current?.setData(points as unknown as uPlot.AlignedData), [points]);
  const last = useMemo(() => points.slice(1).map((values) => values.at(-1) ?? 0), [points]);
  return (
    <figure class="plot">
      <figcaption>
        <strong>{title}</strong>
        {series.map((one, index) => (
          <span key={one.name}>
            <i class={`dot c-${one.token}`} aria-hidden="true" /> {one.name}{" "}
            <b>{(last[index] ?? 0).toFixed(1)}</b>
          </span>
        ))}
        <small>{unit}</small>
      </figcaption>
      <div ref={place} role="img" aria-label={`${title}: ${names}, since this page was opened`} />
    </figure>
  );
}

function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

function useScheme(): boolean {
  const [isDark, setDark] = useState(() => DARK.matches);
  useEffect(() => {
    const follow = () => setDark(DARK.matches);
    DARK.addEventListener("change", follow);
    return () => DARK.removeEventListener("change", follow);
  }, []);
  return isDark;
}
