/** The gutter of tile cells: what is wrong in a line, and which lines are pinned; a click pins. Lit lines are tinted. */
import { forEachDiagnostic } from '@codemirror/lint';
import { type Extension, RangeSetBuilder } from '@codemirror/state';
import { Decoration, EditorView, gutter, GutterMarker, type ViewUpdate } from '@codemirror/view';
import type { TranslationBundle } from '@jupyterlab/translation';

import { litLines, tileCellOf } from './tilecell';

const MARKS = { error: '●', warning: '▲', info: '•', hint: '•' } as const;

class Mark extends GutterMarker {
  constructor(
    private readonly kind: 'pin' | keyof typeof MARKS,
    private readonly title: string
  ) {
    super();
    this.elementClass = `tb-gutter-${kind}`;
  }

  override eq(other: Mark): boolean {
    return other.kind === this.kind && other.title === this.title;
  }

  override toDOM(): Node {
    const node = document.createElement('span');
    node.textContent = this.kind === 'pin' ? '◆' : MARKS[this.kind];
    node.title = this.title;
    node.setAttribute('aria-label', this.title);
    node.setAttribute('role', 'img');
    return node;
  }

  override elementClass: string;
}

/** Whether a transaction changed what the gutter shows. */
function changed(update: ViewUpdate): boolean {
  return update.docChanged || update.transactions.some(t => t.effects.length > 0);
}

export function gutterMarks(trans: TranslationBundle): Extension {
  const pinned = new Mark('pin', trans.__('pinned: click to take the pin away'));
  return gutter({
    class: 'tb-gutter',
    renderEmptyElements: true,
    markers: view => {
      const at = new Map<number, Mark>();
      const { doc } = view.state;
      for (const number of view.state.field(litLines).pinned) {
        if (number <= doc.lines) {
          at.set(doc.line(number).from, pinned);
        }
      }
      forEachDiagnostic(view.state, ({ severity, message }, from) => {
        const { from: start } = doc.lineAt(from);
        if (severity === 'error' || !at.has(start)) {
          at.set(start, new Mark(severity, message));
        }
      });
      const builder = new RangeSetBuilder<GutterMarker>();
      for (const [start, mark] of [...at].sort(([a], [b]) => a - b)) {
        builder.add(start, start, mark);
      }
      return builder.finish();
    },
    lineMarkerChange: changed,
    domEventHandlers: {
      mousedown: (view, block, event) => {
        const number = view.state.doc.lineAt(block.from).number;
        return tileCellOf(view)?.pin(number, (event as MouseEvent).shiftKey) ?? false;
      },
      mousemove: (view, block) => {
        tileCellOf(view)?.hover(view.state.doc.lineAt(block.from).number);
        return false;
      },
      mouseleave: view => {
        tileCellOf(view)?.hover(null);
        return false;
      }
    }
  });
}

const PINNED = Decoration.line({ class: 'tb-line-pinned' });
const HOVERED = Decoration.line({ class: 'tb-line-hovered' });

/** Tints the lines that are lit on the bus. */
export const linkedLines: Extension = EditorView.decorations.compute([litLines, 'doc'], state => {
  const { pinned, hovered } = state.field(litLines);
  const builder = new RangeSetBuilder<Decoration>();
  for (const number of [...new Set([...pinned, ...hovered])].sort((a, b) => a - b)) {
    if (number <= state.doc.lines) {
      const { from } = state.doc.line(number);
      if (pinned.has(number)) {
        builder.add(from, from, PINNED);
      }
      if (hovered.has(number)) {
        builder.add(from, from, HOVERED);
      }
    }
  }
  return builder.finish();
});
