/** The icon: four tiles, one of them lit. */
import { LabIcon } from '@jupyterlab/ui-components';

export const tileIcon = new LabIcon({
  name: 'tilebench:tile',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
  <g class="jp-icon3" fill="#616161"><path d="M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2z"/></g>
  <path class="jp-icon-accent0" fill="#0550ae" d="M9 9h5v5H9z"/>
</svg>`
});
