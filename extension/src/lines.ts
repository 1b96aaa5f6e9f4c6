/** Lines of a report and lines of the text in the editor, which may have been changed since the report was made. */

/** The first line of a tile cell, counted from 0, with blank lines before it allowed; -1 when the text is no tile cell. */
export function headOf(lines: Iterable<string>): number {
  let k = 0;
  for (const line of lines) {
    if (/^\s*%%tile\b/.test(line)) {
      return k;
    }
    if (line.trim()) {
      return -1;
    }
    k++;
  }
  return -1;
}

/** Take empty lines off both ends; how many were taken off the beginning. */
function trim(lines: string[]): number {
  while (lines.length && !lines[lines.length - 1]?.trim()) {
    lines.pop();
  }
  const filled = lines.findIndex(line => line.trim());
  lines.splice(0, Math.max(filled, 0));
  return Math.max(filled, 0);
}

/** Which lines of the text are lines of the report's source: those before and after the part that was changed. */
export class LineMap {
  constructor(source: string, firstLine: number, text: string) {
    const now = text.split('\n');
    const head = headOf(now);
    const body = now.slice(head + 1);
    const then = source.split('\n');
    // The report's source has an empty line where the cell has its first one.
    const [bodyFrom, thenFrom] = [trim(body), trim(then)];
    const shorter = Math.min(body.length, then.length);
    let before = 0;
    while (before < shorter && body[before] === then[before]) {
      before++;
    }
    let after = 0;
    while (after < shorter - before && body[body.length - 1 - after] === then[then.length - 1 - after]) {
      after++;
    }
    this.isSame = head >= 0 && before === body.length && before === then.length;
    for (let k = 0; head >= 0 && k < then.length; k++) {
      const k2 = k < before ? k : k >= then.length - after ? k + body.length - then.length : -1;
      if (k2 >= 0) {
        this.toText.set(firstLine + thenFrom + k, head + 2 + bodyFrom + k2);
        this.toReport.set(head + 2 + bodyFrom + k2, firstLine + thenFrom + k);
      }
    }
  }

  /** Whether the text is what the report was made of. */
  readonly isSame: boolean;

  /** The report's line number -> the line number in the editor. */
  readonly toText = new Map<number, number>();

  /** The line number in the editor -> the report's. */
  readonly toReport = new Map<number, number>();
}
