// The geometry of paths: rings are lists of points, in pixels of a canvas, as x, y, x, y ...
(function () {
  'use strict';
  const { setPrototypeOf } = Object;
  const { abs, ceil, cos, max, min, PI, sin } = Math;
  const { isFinite } = Number;
  const MAX_POINTS = 4000;
  const list = () => setPrototypeOf([], null);

  // A transform, as the six numbers of setTransform, after another one.
  const multiply = (m, a, b, c, d, e, f) => [
    m[0] * a + m[2] * b, m[1] * a + m[3] * b, m[0] * c + m[2] * d, m[1] * c + m[3] * d,
    m[0] * e + m[2] * f + m[4], m[1] * e + m[3] * f + m[5],
  ];

  // The ring of a rectangle under a transform.
  const corners = (m, x, y, w, h) => {
    const ring = list();
    const xs = [x, x + w, x + w, x];
    const ys = [y, y, y + h, y + h];
    for (let i = 0; i < 4; i++) {
      ring[2 * i] = m[0] * xs[i] + m[2] * ys[i] + m[4];
      ring[2 * i + 1] = m[1] * xs[i] + m[3] * ys[i] + m[5];
    }
    return ring;
  };

  const boundsOf = (rings) => {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < rings.length; i++) {
      for (let j = 0; j < rings[i].length; j += 2) {
        box[0] = min(box[0], rings[i][j]);
        box[1] = min(box[1], rings[i][j + 1]);
        box[2] = max(box[2], rings[i][j]);
        box[3] = max(box[3], rings[i][j + 1]);
      }
    }
    return box;
  };

  const widened = (box, other) =>
    box ? [min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3])] : other;

  function areaOf(rings) {
    let area = 0;
    for (let i = 0; i < rings.length; i++) {
      const ring = rings[i];
      let twice = 0;
      for (let j = 0; j < ring.length; j += 2) {
        const next = (j + 2) % ring.length;
        twice += ring[j] * ring[next + 1] - ring[next] * ring[j + 1];
      }
      area += abs(twice) / 2;
    }
    return area;
  }

  // Paths: `state` has the transform and the rings of a drawing context.

  function point(state, x, y, opens) {
    const { matrix: m, rings } = state;
    if (!isFinite(x) || !isFinite(y)) return;
    let ring = rings[rings.length - 1];
    if (opens || !ring) rings[rings.length] = ring = list();
    if (ring.length >= 2 * MAX_POINTS) return;
    ring[ring.length] = m[0] * x + m[2] * y + m[4];
    ring[ring.length] = m[1] * x + m[3] * y + m[5];
    ring.last = [x, y];
  }

  function arc(state, x, y, radiusX, radiusY, rotation, from, to, back) {
    let sweep = to - from;
    if (back) sweep = sweep <= -2 * PI ? -2 * PI : ((sweep % (2 * PI)) - 2 * PI) % (2 * PI) || (from === to ? 0 : -2 * PI);
    else sweep = sweep >= 2 * PI ? 2 * PI : ((sweep % (2 * PI)) + 2 * PI) % (2 * PI) || (from === to ? 0 : 2 * PI);
    const pieces = max(1, ceil(abs(sweep) / (PI / 16)));
    for (let i = 0; i <= pieces; i++) {
      const at = from + (sweep * i) / pieces;
      const px = radiusX * cos(at);
      const py = radiusY * sin(at);
      point(state, x + px * cos(rotation) - py * sin(rotation), y + px * sin(rotation) + py * cos(rotation), false);
    }
  }

  function curve(state, points) {
    const ring = state.rings[state.rings.length - 1];
    const [x0, y0] = (ring && ring.last) || [points[0], points[1]];
    for (let i = 1; i <= 12; i++) {
      const t = i / 12;
      const s = 1 - t;
      if (points.length === 4) {
        point(state, s * s * x0 + 2 * s * t * points[0] + t * t * points[2], s * s * y0 + 2 * s * t * points[1] + t * t * points[3], false);
      } else {
        point(state, s * s * s * x0 + 3 * s * s * t * points[0] + 3 * s * t * t * points[2] + t * t * t * points[4],
          s * s * s * y0 + 3 * s * s * t * points[1] + 3 * s * t * t * points[3] + t * t * t * points[5], false);
      }
    }
  }

  return { __proto__: null, multiply, corners, boundsOf, widened, areaOf, point, arc, curve };
})
