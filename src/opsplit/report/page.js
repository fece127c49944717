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
