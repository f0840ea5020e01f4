import { createRequire } from 'node:module'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** The reference of the XLSX row: exceljs's streaming writer, fed page by page. Arguments: database, file to write. */

interface Worksheet {
  addRow: (cells: unknown[]) => { commit: () => void }
  commit: () => void
}
interface Workbook {
  addWorksheet: (name: string) => Worksheet
  commit: () => Promise<void>
}

const [, , databaseFile = '', filename = ''] = process.argv
const load = createRequire(join(process.env.BENCH_EXCELJS ?? '', 'package.json'))
const exceljs = load('./') as { stream: { xlsx: { WorkbookWriter: new (options: object) => Workbook } } }
const workbook = new exceljs.stream.xlsx.WorkbookWriter({ filename, useStyles: true, useSharedStrings: false })
const sheet = workbook.addWorksheet('products')
const db = new DatabaseSync(databaseFile, { readOnly: true })
const page = db.prepare(
  'select id, name, price, created_at, updated_at from products where id > ? order by id limit 1000',
)
page.setReturnArrays(true)
sheet.addRow(['id', 'name', 'price', 'createdAt', 'updatedAt']).commit()
for (let after = 0; ; ) {
  const rows = page.all(after) as unknown as [number, string, number, string, string][]
  for (const [id, name, price, created, updated] of rows) {
    sheet.addRow([id, name, price, new Date(created), new Date(updated)]).commit()
  }
  if (rows.length < 1_000) break
  after = rows.at(-1)?.[0] ?? 0
  // What was committed is compressed and written in turns of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
}
sheet.commit()
await workbook.commit()
