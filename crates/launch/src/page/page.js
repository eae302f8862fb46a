// Draws the matrices and the table of the report from the data in the page. No word leaves the page.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at++; }
  return (at && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[at];
};

// --- matrices: a cell is [row, column, pairs by shared memory, pairs by sockets, bytes] ---
function matrix(id, value, colour, words) {
  const canvas = document.getElementById(id);
  if (!canvas || !data.matrix) return;
  const { bins, ranks, cells } = data.matrix;
  const scale = Math.max(1, Math.floor(1536 / bins)), grid = scale >= 12 ? 1 + Math.ceil(scale / 40) : 0;
  canvas.width = canvas.height = bins * scale;
  const pen = canvas.getContext("2d");
  const index = new Map(), most = cells.reduce((most, cell) => Math.max(most, value(cell)), 0);
  let drawn = 0;
  pen.fillStyle = css("--line");
  for (let i = 0; i < bins; i++) pen.fillRect(i * scale, i * scale, scale - grid, scale - grid);
  for (const cell of cells) {
    index.set(cell[0] * bins + cell[1], cell);
    const v = value(cell);
    if (v <= 0) continue;
    pen.globalAlpha = 1;
    pen.fillStyle = css("--card");
    pen.fillRect(cell[1] * scale, cell[0] * scale, scale - grid, scale - grid);
    pen.globalAlpha = words.log ? 0.15 + 0.85 * Math.log1p(v) / Math.log1p(most) : Math.max(0.4, Math.min(1, v / words.full(cell)));
    pen.fillStyle = colour(cell);
    pen.fillRect(cell[1] * scale, cell[0] * scale, scale - grid, scale - grid);
    drawn++;
  }
  pen.globalAlpha = 1;
  const caption = canvas.parentElement.querySelector("figcaption");
  canvas.words = canvas.words || [...caption.childNodes]; // colours and their names among them
  const per = Math.ceil(ranks / bins);
  const name = (bin) => per === 1 ? "rank " + bin : "ranks " + bin * per + "-" + (Math.min(ranks, (bin + 1) * per) - 1);
  canvas.onmousemove = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (v, size) => Math.max(0, Math.min(bins - 1, Math.floor(v / size * bins)));
    const row = at(event.clientY - box.top, box.height), column = at(event.clientX - box.left, box.width);
    const cell = index.get(row * bins + column);
    caption.textContent = name(row) + " and " + name(column) + ": " + (cell ? words.of(cell) : "never connected");
  };
  canvas.onmouseleave = () => caption.replaceChildren(...canvas.words);
  canvas.dataset.cells = drawn; // what is drawn can be looked at from outside
  const seen = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  let inked = 0;
  for (let i = 3; i < seen.length; i += 4) if (seen[i] > 0) inked++;
  canvas.dataset.inked = (inked / (seen.length / 4)).toFixed(3);
}

const pairs = (cell) => cell[2] + cell[3];
const pairWords = (cell) => {
  const ways = [cell[2] && cell[2] + " by shared memory", cell[3] && cell[3] + " by sockets or RDMA"].filter(Boolean).join(", ");
  return (data.matrix.bins === data.matrix.ranks ? ways.replace(/\d+ by/g, "by") : ways + " pairs") + "; " + bytes(cell[4]);
};
function draw() {
  matrix("connections", pairs, (cell) => css(cell[2] && cell[3] ? "--p3" : cell[3] ? "--p2" : "--p1"),
    { full: (cell) => data.matrix.full[cell[0]] * data.matrix.full[cell[1]] || 1, of: pairWords });
  matrix("bytes", (cell) => cell[4], () => css("--p0"), { log: true, of: pairWords });
}

// --- the table of ranks ---
const table = document.getElementById("ranks"), SHOWN = 64;
let sorted = { column: 0, down: false }, all = data.ranks.length <= SHOWN;
const thousandths = { minimumFractionDigits: 3, maximumFractionDigits: 3 };
const written = (column, value) => column.bytes ? bytes(value) : value.toLocaleString("en", column.millis ? thousandths : {});
function fill() {
  const { column, down } = sorted;
  const rows = [...data.ranks].sort((a, b) => {
    const [x, y] = [a[column] ?? -1, b[column] ?? -1];
    return (x < y ? -1 : x > y ? 1 : a[0] - b[0]) * (down ? -1 : 1);
  });
  const body = table.tBodies[0];
  body.replaceChildren();
  for (const row of all ? rows : rows.slice(0, SHOWN)) {
    const line = body.insertRow();
    row.forEach((value, at) => {
      line.insertCell().textContent = value === null ? "–" : written(data.columns[at], value);
    });
  }
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
  });
  table.dataset.rows = body.rows.length;
}
const head = table.createTHead().insertRow();
data.columns.forEach((column, at) => {
  const cell = document.createElement("th"), button = document.createElement("button");
  button.textContent = column.name;
  button.title = column.what;
  button.addEventListener("click", () => {
    sorted = { column: at, down: sorted.column === at ? !sorted.down : at > 1 };
    fill();
  });
  cell.append(button);
  head.append(cell);
});
table.createTBody();
const more = document.getElementById("more");
more.hidden = all;
more.addEventListener("click", () => { all = true; more.hidden = true; fill(); });
fill();
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
const timeline = document.getElementById("timeline");
timeline.dataset.width = Math.round(timeline.getBoundingClientRect().width);
table.dataset.fits = table.scrollWidth <= table.parentElement.clientWidth;
document.documentElement.dataset.drawn = "yes";
