// Where the boxes of the flow are, on a wide and on a narrow page, and the lines between them.

const WIDE = {
  width: 760,
  height: 500,
  columns: 1,
  nodes: {
    client: { x: 4, y: 4, w: 173, h: 62 },
    psp: { x: 196, y: 4, w: 365, h: 90 },
    order: { x: 4, y: 154, w: 173, h: 224 },
    payment: { x: 196, y: 154, w: 173, h: 224 },
    fulfilment: { x: 388, y: 154, w: 173, h: 224 },
    receipt: { x: 580, y: 154, w: 173, h: 224 },
    topic: { x: 4, y: 434, w: 749, h: 60 },
  },
};

const NARROW = {
  width: 350,
  height: 912,
  columns: 2,
  nodes: {
    client: { x: 3, y: 4, w: 256, h: 62 },
    order: { x: 3, y: 110, w: 256, h: 136 },
    payment: { x: 3, y: 270, w: 256, h: 158 },
    psp: { x: 3, y: 476, w: 256, h: 112 },
    fulfilment: { x: 3, y: 612, w: 256, h: 136 },
    receipt: { x: 3, y: 772, w: 256, h: 136 },
    topic: { x: 304, y: 110, w: 42, h: 798 },
  },
};

/** Pairs that exchange something; the second entry says whether both ways. */
export const EDGES = [
  ["client", "order", false],
  ["order", "topic", true],
  ["payment", "topic", true],
  ["payment", "psp", true],
  ["fulfilment", "topic", true],
  ["topic", "receipt", false],
];

export const layout = (isNarrow) => (isNarrow ? NARROW : WIDE);

/** The line of a move: straight, with one lane per direction. */
export function lane(nodes, from, to) {
  const [a, b] = [nodes[from], nodes[to]];
  if (!a || !b) return null;
  const left = Math.max(a.x, b.x);
  const right = Math.min(a.x + a.w, b.x + b.w);
  if (right - left > 30) {
    const isDown = a.y < b.y;
    const x = (left + right) / 2 + (isDown ? -22 : 22);
    return isDown ? [x, a.y + a.h, x, b.y] : [x, a.y, x, b.y + b.h];
  }
  const isRight = a.x < b.x;
  const y = middleOfOverlap(a, b) + (isRight ? -14 : 14);
  return isRight ? [a.x + a.w, y, b.x, y] : [a.x, y, b.x + b.w, y];
}

function middleOfOverlap(a, b) {
  return (Math.max(a.y, b.y) + Math.min(a.y + a.h, b.y + b.h)) / 2;
}
