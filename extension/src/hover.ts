/** Hovers in tile cells: what a buffer is and where its elements are, what carries out an op and why. */
import type { Extension } from '@codemirror/state';
import { hoverTooltip } from '@codemirror/view';
import type { TranslationBundle } from '@jupyterlab/translation';

import { h, hues, LANES } from '../../tilebench/views/static/kit.js';
import { bankOf, byteOffsets, gridOf, holders, type LayoutInfo, product } from '../../tilebench/views/static/math.js';
import type { IBufferInfo, IFacts, ILayoutInfo, IOpInfo } from './report';
import { tileCellOf } from './tilecell';

const LARGEST_PICTURE = 1 << 16;
const PICTURE_PX = 180;

/** "16 KiB" */
function bytesText(count: number): string {
  return count >= 1024 && count % 1024 === 0 ? `${count / 1024} KiB` : `${count} B`;
}

/** A small picture of a layout: fragments by thread modulo 8, shared tiles by bank; null when it is too large. */
export function thumbnail(info: ILayoutInfo): HTMLCanvasElement | null {
  const layout = info as unknown as LayoutInfo;
  const { rows = 0, columns = 0, elementAt } = gridOf(layout.shape);
  if (product(layout.shape) > LARGEST_PICTURE || rows * columns === 0) {
    return null;
  }
  const canvas = document.createElement('canvas');
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  const banks = hues(32);
  const held = layout.kind === 'fragment' ? holders(layout) : null;
  const offsets = held ? null : byteOffsets(layout);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const element = elementAt(r, c);
      const thread = held?.thread[element] ?? -1;
      const colour = held ? LANES[thread & 7] : banks[bankOf(offsets?.[element] ?? 0)];
      if (element >= 0 && colour && (!held || thread >= 0)) {
        image.data.set([...colour, 255], 4 * (r * columns + c));
      }
    }
  }
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  const scale = Math.min(PICTURE_PX / columns, (PICTURE_PX * 2) / 3 / rows, 12);
  canvas.style.width = `${Math.max(1, Math.round(columns * scale))}px`;
  canvas.style.height = `${Math.max(1, Math.round(rows * scale))}px`;
  canvas.className = 'tb-thumbnail';
  return canvas;
}

function bufferCard(buffer: IBufferInfo, facts: IFacts, trans: TranslationBundle): HTMLElement {
  const layout = facts.layouts.find(l => l.buffer === buffer.name);
  const versions = buffer.versions > 1 ? ` × ${buffer.versions}` : '';
  const place = buffer.offset === null ? '' : trans.__(', from byte %1', buffer.offset);
  const picture = layout ? thumbnail(layout) : null;
  picture?.setAttribute('role', 'img');
  picture?.setAttribute(
    'aria-label',
    layout?.kind === 'fragment'
      ? trans.__('elements coloured by thread modulo 8')
      : trans.__('elements coloured by bank')
  );
  return h(
    'div',
    { class: 'tilebench tb-card' },
    h('p', {}, h('b', {}, buffer.name), ` ${buffer.shape.join('×')} ${buffer.dtype}, ${buffer.scope}`),
    h('p', {}, `${bytesText(buffer.bytes)}${versions}${place}`),
    layout
      ? h('div', { class: 'tb-card-layout' }, picture, h('pre', { class: 'tb-formula' }, layout.formula))
      : null,
    layout?.reason ? h('p', { class: 'tb-why' }, trans.__('why: %1', layout.reason)) : null
  ) as HTMLElement;
}

function opCard(name: string, ops: IOpInfo[], trans: TranslationBundle): HTMLElement {
  return h(
    'div',
    { class: 'tilebench tb-card' },
    ...ops.flatMap(op => [
      h('p', {}, h('b', {}, name), op.instruction ? trans.__(' is carried out by %1', op.instruction) : ''),
      op.reason ? h('p', { class: 'tb-why' }, trans.__('why: %1', op.reason)) : null,
      op.reads.length + op.writes.length > 0
        ? h('p', {}, trans.__('reads %1; writes %2', op.reads.join(', ') || '–', op.writes.join(', ') || '–'))
        : null
    ])
  ) as HTMLElement;
}

export function hovers(trans: TranslationBundle): Extension {
  return hoverTooltip((view, position) => {
    const facts = tileCellOf(view)?.facts;
    const word = view.state.wordAt(position);
    if (!facts || !word) {
      return null;
    }
    const name = view.state.sliceDoc(word.from, word.to);
    const line = view.state.doc.lineAt(position);
    const isOp = view.state.sliceDoc(Math.max(line.from, word.from - 2), word.from) === 'T.';
    let card: HTMLElement | null = null;
    if (isOp) {
      const number = tileCellOf(view)?.factsLine(line.number) ?? 0;
      const spelled = name.toLowerCase();
      const here = facts.ops.filter(
        o => o.span && o.span.line <= number && number <= Math.max(o.span.line, o.span.end_line)
      );
      const found = here.filter(o => spelled.startsWith(o.name) || o.name.startsWith(spelled));
      const shown = found.length ? found : here.filter(o => o.span?.line === number && o.name !== 'parallel');
      card = shown.length ? opCard(`T.${name}`, shown, trans) : null;
    } else {
      const buffer = [...facts.buffers, ...facts.params].find(b => b.name === name);
      card = buffer ? bufferCard(buffer, facts, trans) : null;
    }
    const dom = card;
    return dom && { pos: word.from, end: word.to, above: true, create: () => ({ dom }) };
  });
}
