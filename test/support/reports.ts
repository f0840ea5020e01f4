import type { ResultStore } from '../../src/files/store.ts'
import { renderReport } from '../../src/reports/generate/render.ts'
import type { Produce } from '../../src/reports/generate/report-threads.ts'
import type { ReportKind } from '../../src/reports/report-types.ts'
import { openSnapshot } from '../../src/storage/open.ts'
import type { Snapshot } from '../../src/storage/snapshots/snapshot.ts'

/** A report type with one numeric column; the test supplies the rows. */
export const numbersKind: ReportKind = {
  ...{ name: 'numbers', title: 'Numbers', scope: null, from: 'products', key: ['id'] },
  columns: [{ name: 'n', type: 'integer', sql: 'id' }],
}

/** Returns a snapshot that yields pages of ten numbers, and calls `before` before each page. */
export const numberPages = (pages: number, before: (page: number) => unknown = () => {}): Snapshot => ({
  prepare: async () => {},
  count: async () => pages * 10,
  pages: async function* () {
    for (let page = 0; page < pages; page++) {
      await before(page)
      yield Array.from({ length: 10 }, (_, at) => [page * 10 + at])
    }
  },
  close: async () => {},
})

/**
 * Returns a function that renders a report in this thread instead of a worker thread, from a snapshot or a database
 * URL. Rendering can be aborted between pages.
 */
export const produceHere =
  (results: ResultStore, source: Snapshot | string): Produce =>
  async (order, signal, onProgress) => {
    const snapshot = typeof source === 'string' ? await openSnapshot(source) : source
    const pages: Snapshot['pages'] = async function* (read) {
      for await (const page of snapshot.pages(read)) {
        signal.throwIfAborted()
        yield page
      }
    }
    const aborted = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const made = renderReport(order, { snapshot: { ...snapshot, pages }, results }, onProgress)
    return Promise.race([made, aborted]).finally(snapshot.close)
  }
