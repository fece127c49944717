"""How the report looks, and the little it does by itself."""

from __future__ import annotations

STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --page: #fff; --card: #f4f6f8; --line: #d0d7de;
  --mark: #0072b2; --pick: #e3f1fa; --warn: #fff4d6; --edge: #d9a400; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa4af; --page: #14171a;
  --card: #1e2328; --line: #39414a; --mark: #6cbdf0; --pick: #17364a; --warn: #3a3010; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
.kicker { color: var(--mark); font-weight: 600; margin: 0; }
h1 { font: 600 1.35rem/1.4 ui-monospace, monospace; margin: .25rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
.notes { background: var(--warn); border-left: 4px solid var(--edge); padding: .5rem 1rem;
  margin: 1.5rem 0; border-radius: 4px; }
.notes h2 { margin: 0; }
ul { padding-left: 1.25rem; margin: .5rem 0; }
.scroll { overflow: auto; max-height: 26rem; border: 1px solid var(--line); border-radius: 6px;
  margin: .5rem 0; }
table { border-collapse: collapse; font-size: .875rem; min-width: 100%; }
th, td { padding: .3rem .7rem; text-align: left; border-top: 1px solid var(--line);
  white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--card); border-top: 0; }
tbody tr:first-child td { border-top: 0; }
td.n { font-variant-numeric: tabular-nums; }
.pick td { background: var(--pick); font-weight: 600; }
.facts td:last-child { white-space: normal; width: 99%; }
.facts td:first-child { color: var(--soft); }
figure { margin: .75rem 0; }
img { display: block; max-width: 100%; height: auto; border-radius: 4px; }
section > figure img { width: 40rem; }
figcaption { color: var(--soft); font-size: .875rem; }
.frames { display: grid; gap: .5rem .75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(9rem, 45%), 1fr)); margin-bottom: .5rem; }
.frames figure { margin: 0; }
.frames img { width: 100%; image-rendering: pixelated; }
.film { grid-template-columns: repeat(auto-fit, minmax(min(16rem, 100%), 24rem)); }
.player { display: flex; flex-wrap: wrap; gap: .75rem; align-items: center; margin: .75rem 0; }
.player input { flex: 1 1 10rem; }
output { min-width: 12rem; font-variant-numeric: tabular-nums; }
.scale { font-size: .875rem; color: var(--soft); }
.scale img { display: inline-block; width: 10rem; height: .8rem; vertical-align: middle; }
button { font: inherit; padding: .35rem .9rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--card); color: inherit; cursor: pointer; min-width: 5rem; }
pre { padding: .75rem; font-size: .8rem; }
summary { cursor: pointer; margin: .5rem 0; }
"""

SCRIPT = """
"use strict";
const get = id => document.getElementById(id);
get("copy").onclick = async () => {
  const button = get("copy"), csv = get("csv");
  try {
    await navigator.clipboard.writeText(csv.textContent);
    button.textContent = "Copied";
  } catch {
    csv.hidden = false;
    getSelection().selectAllChildren(csv);
    button.textContent = "Selected below: copy it";
  }
};
if (get("film")) {
  const {labels, films} = JSON.parse(get("film").textContent);
  const screens = document.querySelectorAll(".screen");
  const slider = get("frame"), play = get("play");
  let timer = null;
  const show = () => {
    screens.forEach((screen, i) => { screen.src = films[i][slider.value]; });
    get("moment").textContent = labels[slider.value];
  };
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  slider.oninput = () => { stop(); show(); };
  play.onclick = () => {
    if (timer) return stop();
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = (Number(slider.value) + 1) % labels.length;
      show();
    }, 150);
  };
}
"""
