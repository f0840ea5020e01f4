import { resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Measurement } from './bench.ts'
import { requestText } from './http.ts'
import { measure } from './requests.ts'
import { type OwnDefinition, startService } from './service.ts'

const name = 'create-hook'
const distinct = 256

const definitionOf = (file: string): OwnDefinition => ({
  file: resolve(import.meta.dirname, file),
  scopes: 'notes:read notes:write',
  path: '/notes',
  fill: () => {},
})

function countNotes(databaseFile: string): number {
  const db = new DatabaseSync(databaseFile, { readOnly: true })
  const row = db.prepare('select count(*) as notes from resource_notes').get() as { notes: number }
  db.close()
  return row.notes
}

/** Compares POST requests to the same collection with and without a `created` hook. */
export const hookRow: Measurement = {
  name,
  measure: async (bench) => {
    const start = (file: string) =>
      startService(bench.sandbox, bench.options, bench.pin, { name: `${name}-${file}`, definition: definitionOf(file) })
    const [plain, hooked] = [await start('notes.ts'), await start('hooked-notes.ts')]
    const reference = { ...plain, name: 'reference' as const }
    const row = {
      ...{ name, title: 'POST with a hook, durable', floor: 0.8, status: 201, referenceStatus: 201 },
      requests: (headers: Record<string, string>) =>
        Array.from({ length: distinct }, (_, at) => {
          const body = JSON.stringify({ name: `Note ${at}` })
          return requestText('POST', '/notes', { ...headers, 'content-type': 'application/json' }, body)
        }),
      writes: { count: countNotes, share: 1 },
    }
    const result = await measure({ ...bench, reference, service: hooked }, row, 'without code')
    await Promise.all([plain.stop(), hooked.stop()])
    return result
  },
}
