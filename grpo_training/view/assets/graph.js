"use strict";
// Draws causal graphs as SVG: every `<div data-graph=NAME>` shows json_script(NAME). Layout by dagre.
{
  const SVG = "http://www.w3.org/2000/svg";
  const LONGEST = 26;
  const LINE = 15;
  const PADDING = 9;
  const ruler = document.createElement("canvas").getContext("2d");

  function svg(tag, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function short(text) {
    const characters = [...text];
    return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join("")}…` : text;
  }

  function width(text, font) {
    ruler.font = font;
    return ruler.measureText(text).width;
  }

  function sized(node) {
    const value = node.fault && !node.value ? "no value" : node.value;
    const lines = [short(node.name), short(value || "?")];
    return {
      lines,
      width: Math.max(46, width(lines[0], "500 12px system-ui"), width(lines[1], "600 13px ui-monospace, monospace")) + 2 * PADDING,
      height: 2 * LINE + 2 * PADDING - 4,
    };
  }

  function layout(graph, boxes) {
    const plan = new dagre.graphlib.Graph();
    plan.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 30, marginx: 6, marginy: 6 });
    plan.setDefaultEdgeLabel(() => ({}));
    graph.nodes.forEach((node, place) => plan.setNode(node.id, { width: boxes[place].width, height: boxes[place].height }));
    for (const [cause, effect] of graph.edges) plan.setEdge(cause, effect);
    dagre.layout(plan);
    return plan;
  }

  function curve(points) {
    const [first, ...rest] = points;
    let path = `M${first.x} ${first.y}`;
    for (let place = 0; place < rest.length - 1; place += 1) {
      const here = rest[place];
      const next = rest[place + 1];
      const last = place === rest.length - 2;
      path += `Q${here.x} ${here.y} ${last ? next.x : (here.x + next.x) / 2} ${last ? next.y : (here.y + next.y) / 2}`;
    }
    return rest.length > 1 ? path : `${path}L${rest[0].x} ${rest[0].y}`;
  }

  function box(node, place, size) {
    const { x, y } = place;
    const left = x - size.width / 2;
    const top = y - size.height / 2;
    const group = svg("g", { class: `node ${node.role} ${node.mark}`, "data-node": node.id, tabindex: "0" });
    const title = [node.name, node.value && `= ${node.value}`, node.rule, node.fault].filter(Boolean).join("\n");
    group.append(
      svg("title", {}, title),
      svg("rect", { x: left, y: top, width: size.width, height: size.height, rx: node.role === "known" ? size.height / 2 : 5 }),
      svg("text", { x, y: top + PADDING + 8, class: "name" }, size.lines[0]),
      svg("text", { x, y: top + PADDING + 8 + LINE, class: "value" }, size.lines[1]),
    );
    if (node.mark === "first") {
      group.append(
        svg("circle", { cx: left + size.width - 2, cy: top + 2, r: 9, class: "badge" }),
        svg("text", { x: left + size.width - 2, y: top + 6, class: "badge" }, "≠"),
      );
    }
    return group;
  }

  /** The nodes from which a node follows, itself included. */
  function ancestors(graph, node) {
    const found = new Set([node]);
    let size = 0;
    while (found.size > size) {
      size = found.size;
      for (const [cause, effect] of graph.edges) if (found.has(effect)) found.add(cause);
    }
    return found;
  }

  function highlight(drawing, graph, node) {
    const chosen = node === null ? null : ancestors(graph, node);
    drawing.classList.toggle("choosing", chosen !== null);
    for (const one of drawing.querySelectorAll("[data-node]")) {
      one.classList.toggle("chosen", chosen !== null && chosen.has(one.dataset.node));
    }
    for (const one of drawing.querySelectorAll("[data-edge]")) {
      const [cause, effect] = one.dataset.edge.split(" ");
      one.classList.toggle("chosen", chosen !== null && chosen.has(cause) && chosen.has(effect));
    }
  }

  function draw(place) {
    const graph = viewer.data(place.dataset.graph);
    if (graph === null) return;
    const boxes = graph.nodes.map(sized);
    const plan = layout(graph, boxes);
    const size = plan.graph();
    const arrow = `arrow-${place.dataset.graph}`;
    const drawing = svg("svg", {
      viewBox: `0 0 ${size.width} ${size.height}`,
      width: size.width,
      height: size.height,
      role: "img",
      "aria-label": place.dataset.label,
    });
    drawing.append(
      svg("defs", {}, svg("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        svg("path", { d: "M0 0.8L7.4 4L0 7.2Z", class: "arrow" }))),
    );
    for (const [cause, effect] of graph.edges) {
      const points = plan.edge(cause, effect).points;
      drawing.append(svg("path", { d: curve(points), class: "edge", "marker-end": `url(#${arrow})`, "data-edge": `${cause} ${effect}` }));
    }
    graph.nodes.forEach((node, number) => {
      const made = box(node, plan.node(node.id), boxes[number]);
      for (const event of ["mouseenter", "focus"]) made.addEventListener(event, () => highlight(drawing, graph, node.id));
      for (const event of ["mouseleave", "blur"]) made.addEventListener(event, () => highlight(drawing, graph, null));
      drawing.append(made);
    });
    place.replaceChildren(drawing);
  }

  viewer.onData(() => {
    for (const place of document.querySelectorAll("[data-graph]")) draw(place);
  });
}
