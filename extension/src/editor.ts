/**
 * What a tile cell's editor has beyond other cells': decorations, squiggles and marks in a gutter, hovers, and lines lit by
 * what is pinned in the views. All of it is in one compartment, empty unless the first line is `%%tile`.
 */
import { lintKeymap, linter } from '@codemirror/lint';
import { Compartment, type EditorState, type Extension, Prec } from '@codemirror/state';
import { EditorView, keymap, ViewPlugin, type ViewUpdate } from '@codemirror/view';

import { decorations } from './decorate';
import { gutterMarks, linkedLines } from './gutter';
import { hovers } from './hover';
import { headOf } from './lines';
import { type ITileServices, tileCell } from './tilecell';

/** Whether the text starts with a `%%tile` line. */
export function isTile(state: EditorState): boolean {
  return headOf(state.doc.iterLines()) >= 0;
}

/** The extension of the editor of one code cell. */
export function tileEditor(services: ITileServices, text: string): Extension {
  const compartment = new Compartment();
  const starts = headOf(text.split('\n')) >= 0 && services.isPython();

  const parts: Extension = [
    tileCell(services),
    linter(null),
    Prec.low(keymap.of(lintKeymap)),
    decorations,
    linkedLines,
    gutterMarks(services.trans),
    hovers(services.trans),
    EditorView.editorAttributes.of({ class: 'tb-tile-cell' })
  ];

  const watch = ViewPlugin.define(view => {
    let on = starts;
    let isGone = false;
    const settle = () => {
      if (isGone) {
        return;
      }
      const wanted = isTile(view.state) && services.isPython();
      if (wanted !== on) {
        on = wanted;
        view.dispatch({ effects: compartment.reconfigure(on ? parts : []) });
      }
    };
    const soon = () => {
      queueMicrotask(settle); // the view is being updated now
    };
    services.languageChanged.connect(soon);
    return {
      update: (update: ViewUpdate) => {
        if (update.docChanged) {
          soon();
        }
      },
      destroy: () => {
        isGone = true;
        services.languageChanged.disconnect(soon);
      }
    };
  });

  return [compartment.of(starts ? parts : []), watch];
}
