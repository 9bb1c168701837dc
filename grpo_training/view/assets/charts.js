"use strict";
// Curves with hover, zoom by drag and interval bands, drawn by uPlot. A page has <div class="chart" data-chart="NAME">
// and json_script("charts", {NAME: {x, xText, xTime, y: {format, min, max}, series: [{label, values, low, high, step, gaps}]}}).
{
  const HEIGHT = 200;
  const COLORS = 6;
  const WHOLE = Array.from({ length: 45 }, (_, place) => [1, 2, 5][place % 3] * 10 ** Math.floor(place / 3));
  const drawn = new Map();

  const formats = {
    decimal: (value) => value.toFixed(3),
    percent: (value) => `${(100 * value).toFixed(1)} %`,
    count: (value) => value.toLocaleString("en", { maximumFractionDigits: 1 }).replaceAll(",", "\u202f"),
    seconds: (value) => `${value.toLocaleString("en", Math.abs(value) < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 1 })} s`,
    number: (value) => Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(2) : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }),
  };

  /** The variable with the colour of a series. */
  const colorName = (index) => `--c${(index % COLORS) + 1}`;

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** Ticks of time in UTC, as in the files: hours and minutes, with the day if there is more than one. */
  function timeTicks(plot, ticks) {
    const spans = ticks.length > 1 && ticks[ticks.length - 1] - ticks[0] > 86400;
    const fine = ticks.length > 1 && ticks[1] - ticks[0] < 60;
    return ticks.map((tick) => {
      const text = new Date(tick * 1000).toISOString();
      return spans ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, fine ? 19 : 16);
    });
  }

  function shownX(spec, value) {
    if (!spec.xTime) return `${spec.xText ?? "group"} ${formats.count(value)}`;
    return new Date(value * 1000).toISOString().replace("T", " ").slice(0, 19);
  }

  /** The columns that uPlot draws, and for each of them what it is: a line, or an edge of a band. */
  function columns(spec) {
    const data = [spec.x];
    const series = [{}];
    const bands = [];
    spec.series.forEach((one, index) => {
      const stroke = color(colorName(index));
      const stepped = one.step ? uPlot.paths.stepped({ align: 1 }) : undefined;
      series.push({ label: one.label, stroke, width: 1.6, paths: stepped, spanGaps: one.gaps === true, points: { show: spec.x.length < 3, size: 5 } });
      data.push(one.values);
      if (one.low) {
        const edge = { stroke: "transparent", width: 0, points: { show: false }, edge: true };
        series.push({ ...edge }, { ...edge });
        data.push(one.high, one.low);
        bands.push({ series: [data.length - 2, data.length - 1], fill: faded(stroke) });
      }
    });
    return { data, series, bands };
  }

  function faded(stroke) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(stroke.slice(at, at + 2), 16));
    return `rgba(${red}, ${green}, ${blue}, 0.16)`;
  }

  /** Values below the curves: those at the cursor, else the last ones. */
  function writeLegend(spec, legend, at) {
    const shown = formats[spec.y.format];
    const index = at ?? spec.x.length - 1;
    legend.replaceChildren(viewer.element("span", { class: "chart-x" }, spec.x.length ? shownX(spec, spec.x[index]) : ""));
    spec.series.forEach((one, place) => {
      const value = one.values[index];
      const mark = viewer.element("i");
      mark.style.background = `var(${colorName(place)})`;
      const item = viewer.element("span", { class: "chart-series" }, mark, one.label ? `${one.label} ` : "");
      item.append(viewer.element("b", {}, value === null || value === undefined ? "–" : shown(value)));
      if (one.low && one.low[index] !== null && one.low[index] !== undefined) {
        item.append(viewer.element("span", { class: "chart-interval" }, ` ${shown(one.low[index])} … ${shown(one.high[index])}`));
      }
      legend.append(item);
    });
  }

  function range(spec) {
    return (plot, low, high) => {
      if (low === null) return [0, 1];
      const margin = (high - low) * 0.08 || Math.abs(high) * 0.1 || 0.5;
      const from = Math.max(spec.y.min ?? -Infinity, low < 0 ? -Infinity : 0, low - margin);
      const to = Math.min(spec.y.max ?? Infinity, high + margin);
      return [from, to > from ? to : from + margin];
    };
  }

  function options(spec, width, legend) {
    const { series, bands } = columns(spec);
    const shown = formats[spec.y.format];
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "13px system-ui" };
    return {
      width,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      cursor: {
        y: false,
        sync: spec.sync === false ? undefined : { key: spec.xTime ? "time" : "position", setSeries: false },
        points: { show: (plot, index) => !plot.series[index].edge && viewer.element("div"), size: 7 },
        drag: { x: true, y: false, setScale: true },
      },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { time: Boolean(spec.xTime) }, y: { range: range(spec) } },
      axes: [
        { ...axis, size: 30, gap: 4, ...(spec.xTime ? { space: 100, values: timeTicks } : { space: 56, incrs: WHOLE, values: countTicks }) },
        { ...axis, size: 60, gap: 5, values: (plot, ticks) => valueTicks(ticks, shown) },
      ],
      hooks: { setCursor: [(plot) => writeLegend(spec, legend, plot.cursor.idx)] },
    };
  }

  function countTicks(plot, ticks) {
    return ticks.map((tick) => formats.count(tick));
  }

  /** Ticks as the values are shown; with more digits where two of them would be the same text. */
  function valueTicks(ticks, shown) {
    const texts = ticks.map((tick) => shortTick(shown(tick)));
    if (new Set(texts).size === texts.length) return texts;
    const digits = Math.min(8, Math.ceil(-Math.log10(ticks[1] - ticks[0])));
    return ticks.map((tick) => (digits > 0 ? shortTick(tick.toFixed(digits)) : shown(tick)));
  }

  /** A tick without zeros that all ticks have: "0.200" is "0.2". */
  function shortTick(text) {
    return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
  }

  function draw(element, spec) {
    drawn.get(element)?.destroy();
    element.replaceChildren();
    const legend = viewer.element("div", { class: "chart-legend" });
    const width = Math.max(element.clientWidth, 200);
    const plot = new uPlot(options(spec, width, legend), columns(spec).data, element);
    element.append(legend);
    writeLegend(spec, legend, null);
    drawn.set(element, plot);
    resized.observe(element);
  }

  const resized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const plot = drawn.get(target);
      if (plot !== undefined && contentRect.width > 0 && Math.abs(plot.width - contentRect.width) > 1) {
        plot.setSize({ width: contentRect.width, height: HEIGHT });
      }
    }
  });

  /** Draw again, keeping the zoom. */
  function drawAll() {
    const specs = viewer.data("charts") ?? {};
    for (const [element, plot] of drawn) {
      if (!element.isConnected) {
        plot.destroy();
        drawn.delete(element);
      }
    }
    for (const element of document.querySelectorAll("[data-chart]")) {
      const spec = specs[element.dataset.chart];
      if (spec === undefined) continue;
      const zoom = zoomOf(element);
      draw(element, spec);
      if (zoom !== null) drawn.get(element).setScale("x", zoom);
    }
  }

  function zoomOf(element) {
    const plot = drawn.get(element);
    if (plot === undefined || plot.data[0].length === 0) return null;
    const { min, max } = plot.scales.x;
    const all = plot.data[0];
    return min > all[0] || max < all[all.length - 1] ? { min, max } : null;
  }

  viewer.onData(drawAll);
}
