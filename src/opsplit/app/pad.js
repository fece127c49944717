// A pad to draw a profile (1-D) or a field (2-D) on: pointer, touch and keys write `props.value`,
// numbers from -1 to 1 with x first, and nothing else leaves the pad.
const get = name => element.querySelector(name);
const canvas = get("canvas"), said = get("output"), lower = get(".lower");
const ink = canvas.getContext("2d");
let nx, ny, values, at, last = null;

const flat = () => ny === 1;
const shape = () => { [nx, ny = 1] = props.shape; };
const clip = v => Math.max(-1, Math.min(1, v));
const colour = v => {
  const end = v < 0 ? [33, 102, 172] : [178, 24, 43], share = Math.abs(v);
  return `rgb(${end.map(c => Math.round(255 + (c - 255) * share)).join()})`;
};

const draw = () => {
  const w = canvas.width, h = canvas.height, active = document.activeElement === canvas;
  ink.fillStyle = "#ffffff";
  ink.fillRect(0, 0, w, h);
  if (flat()) {
    const y = i => h * (1 - values[i]) / 2;
    ink.strokeStyle = "#bbbbbb"; ink.lineWidth = 1;
    ink.beginPath(); ink.moveTo(0, h / 2); ink.lineTo(w, h / 2); ink.stroke();
    ink.strokeStyle = "#0072b2"; ink.lineWidth = 5; ink.lineJoin = "round";
    ink.beginPath();
    for (let i = 0; i < nx; i++) ink.lineTo(w * (i + .5) / nx, y(i));
    ink.stroke();
    if (active) {
      ink.fillStyle = "#d55e00";
      ink.beginPath(); ink.arc(w * (at[0] + .5) / nx, y(at[0]), 9, 0, 7); ink.fill();
    }
    return;
  }
  for (let i = 0; i < nx; i++) for (let j = 0; j < ny; j++) {
    ink.fillStyle = colour(values[i * ny + j]);
    ink.fillRect(w * i / nx, h * (ny - 1 - j) / ny, w / nx + 1, h / ny + 1);
  }
  if (active) {
    ink.strokeStyle = "#d55e00"; ink.lineWidth = 4;
    ink.strokeRect(w * at[0] / nx, h * (ny - 1 - at[1]) / ny, w / nx, h / ny);
  }
};

const clear = () => {
  values = new Array(nx * ny).fill(0);
  at = [nx >> 1, ny >> 1];
};
const begin = () => {
  shape();
  canvas.width = flat() ? 640 : 480;
  canvas.height = flat() ? 240 : 480;
  canvas.style.maxWidth = flat() ? "40rem" : "22rem";
  canvas.setAttribute("aria-label", flat()
    ? "Profile to draw. Left and right move, up and down change the value."
    : "Field to draw. Arrows move, plus and minus change the value.");
  element.querySelectorAll(".plane").forEach(part => { part.hidden = flat(); });
  clear();
  draw();
};
// The page hears of a drawing when a stroke ends, not at every point of it.
const keep = () => {
  const rows = [];
  for (let i = 0; i < nx; i++) rows.push(flat() ? values[i] : values.slice(i * ny, (i + 1) * ny));
  props.value = rows;
};

// A smooth bump that goes on at the other side, as the field does.
const bump = (x, y, size) => {
  const wide = flat() ? nx / 24 : 1.5;
  const gap = (a, b, n) => { const d = Math.abs(a - b); return Math.min(d, n - d); };
  for (let i = 0; i < nx; i++) for (let j = 0; j < ny; j++) {
    const r2 = gap(i, x, nx) ** 2 + gap(j, y, ny) ** 2;
    const k = i * ny + j;
    values[k] = Math.round(1000 * clip(values[k] + size * Math.exp(-r2 / (2 * wide ** 2)))) / 1000;
  }
};
const place = event => {
  const box = canvas.getBoundingClientRect();
  const share = (v, low, size) => Math.max(0, Math.min(.9999, (v - low) / size));
  return [share(event.clientX, box.left, box.width), share(event.clientY, box.top, box.height)];
};
const stroke = event => {
  const [sx, sy] = place(event);
  if (flat()) {
    const i = Math.floor(sx * nx), v = Math.round(1000 * (1 - 2 * sy)) / 1000;
    const [from, start] = last ?? [i, v], steps = Math.max(1, Math.abs(i - from));
    for (let s = 0; s <= steps; s++) {
      const k = from + Math.sign(i - from) * Math.min(s, Math.abs(i - from));
      values[k] = Math.round(1000 * (start + (v - start) * s / steps)) / 1000;
    }
    last = [i, v];
    at = [i, 0];
  } else {
    at = [Math.floor(sx * nx), Math.floor((1 - sy) * ny)];
    const down = lower.getAttribute("aria-pressed") === "true" || event.shiftKey;
    bump(at[0], Math.min(at[1], ny - 1), down ? -.3 : .3);
    last = at;
  }
  draw();
};

canvas.onpointerdown = event => {
  // Prevents the page from scrolling under a finger.
  event.preventDefault();
  canvas.focus();
  canvas.setPointerCapture(event.pointerId);
  last = null;
  stroke(event);
};
canvas.onpointermove = event => { if (event.buttons) stroke(event); };
canvas.onpointerup = canvas.onpointercancel = () => { last = null; keep(); };
canvas.onfocus = canvas.onblur = draw;
canvas.onkeydown = event => {
  const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1]};
  const sizes = {"+": .1, "=": .1, "-": -.1};
  if (flat()) Object.assign(sizes, {ArrowUp: .1, ArrowDown: -.1});
  const size = sizes[event.key], move = moves[event.key];
  if (size === undefined && move === undefined) return;
  event.preventDefault();
  if (size !== undefined) {
    bump(at[0], at[1], size);
    keep();
  } else {
    at = [(at[0] + move[0] + nx) % nx, (at[1] + move[1] + ny) % ny];
  }
  const where = flat() ? `x ${at[0] + 1}` : `x ${at[0] + 1}, y ${at[1] + 1}`;
  said.textContent = `${where}: ${values[at[0] * ny + at[1]].toFixed(2)}`;
  draw();
};
get(".clear").onclick = () => { clear(); keep(); said.textContent = ""; draw(); };
lower.onclick = () => {
  const now = lower.getAttribute("aria-pressed") !== "true";
  lower.setAttribute("aria-pressed", String(now));
};
watch("shape", begin);
begin();
