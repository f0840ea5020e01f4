import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { folderResults } from '../../src/files/folder.ts'
import { removeUnusedFiles } from '../../src/files/remove-unused.ts'
import { openDatabase } from '../../src/storage/open.ts'
import { definitionFolder } from '../support/definitions.ts'
import { type EngineUnderTest, forEachEngine } from '../support/engines.ts'
import { seed, sequence } from '../support/kill.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

/** How often the service is killed on each engine. */
const kills = Number(process.env.KILLS ?? 5)
const clients = 4
const type = 'application/octet-stream'

const definition = `
  import { collection, File, Line, service, Type } from 'plinth'
  const scan = Type.Optional(File({ maxBytes: 5_000_000, types: ['${type}'] }))
  const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40), scan }) })
  export default service({ resources: [notes] })`

/**
 * The possible states of each row: the digest of its file, `none` if it has no file, or `deleted`. A request without a
 * response adds a possible state; an accepted request replaces them all with its own.
 */
type Ledger = Map<string, Set<string>>

/** A client's write request, and the state of the row after it. */
interface Write {
  method: string
  path: string
  body?: Buffer
  type?: string
  state: string
}

const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('base64')

/** Returns a multipart write with a text field and a file. */
async function formWrite(method: string, path: string, bytes: Buffer): Promise<Write> {
  const form = new FormData()
  form.append('json', JSON.stringify({ text: 'written' }))
  form.append('scan', new Blob([Uint8Array.from(bytes)], { type }), 'scan.bin')
  const encoded = new Response(form)
  const body = Buffer.from(await encoded.arrayBuffer())
  return { method, path, body, type: encoded.headers.get('content-type') as string, state: digestOf(bytes) }
}

/** Creates, changes and deletes rows and their files, one at a time, until a request has no response. */
async function workUntilKilled(service: RealService, ledger: Ledger, random: () => number): Promise<void> {
  const bytes = () => randomBytes(1_000 + Math.floor(random() * 1_500_000))
  const send = async ({ method, path, body, type, state }: Write): Promise<string | undefined> => {
    ledger.get(path)?.add(state)
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
    const url = state === 'deleted' || type?.startsWith('multipart') ? path : `${path}/scan`
    const answer = await service.call(method, url, { ...(body && { body }), headers })
    // A busy service may refuse a request.
    if (answer.status === 503) return undefined
    assert.ok([200, 201, 204].includes(answer.status), `${method} ${url}: ${answer.status} ${answer.text}`)
    const row = method === 'POST' ? `/notes/${answer.json().id}` : path
    ledger.set(row, new Set([state]))
    return row
  }
  for (;;) {
    const path = await send(await formWrite('POST', '/notes', bytes()))
    if (path === undefined) continue
    const scan = bytes()
    await send({ method: 'PUT', path, body: scan, type, state: digestOf(scan) })
    await send(await formWrite('PATCH', path, bytes()))
    if (random() < 0.3) await send({ method: 'DELETE', path, state: 'none' })
    else if (random() < 0.5) await send({ method: 'DELETE', path, state: 'deleted' })
  }
}

/** Asserts that each row has one of its possible states, and that its file has the digest that the row shows. */
async function checkRows(service: RealService, ledger: Ledger): Promise<void> {
  for (const [path, states] of ledger) {
    const row = await service.call('GET', path)
    const state = row.status === 404 ? 'deleted' : (row.json().scan?.sha256 ?? 'none')
    assert.ok(states.has(state), `${path} is ${state}, not ${[...states].join(' or ')}`)
    if (state === 'deleted' || state === 'none') continue
    const file = await service.call('GET', `${path}/scan`)
    assert.deepEqual([file.status, digestOf(file.bytes)], [200, state])
  }
}

/** Runs the sweep as of three hours from now, and asserts that every remaining file belongs to a row. */
async function checkStore(url: string, folder: string): Promise<void> {
  const db = await openDatabase(url)
  try {
    const store = folderResults(folder)
    await removeUnusedFiles({
      db,
      store,
      now: () => Date.now() + 3 * 3_600_000,
      onError: (error) => assert.fail(String(error)),
    })
    const records = await db.read.selectFrom('storedFiles').selectAll().execute()
    const rows = await db.read
      .selectFrom('resource_notes' as never)
      .select(['id', 'scan'] as never[])
      .execute()
    const shown = (rows as { id: number; scan: string | null }[])
      .filter(({ scan }) => scan !== null)
      .map(({ id, scan }) => `${id} ${(JSON.parse(scan as string) as { sha256: string }).sha256}`)
    assert.deepEqual(records.map(({ rowId, sha256 }) => `${rowId} ${sha256}`).sort(), shown.sort())
    assert.deepEqual([...new Set(records.map(({ state }) => state))], ['stored'])
    assert.deepEqual(readdirSync(folder).sort(), records.map(({ key }) => key).sort())
  } finally {
    await db.close()
  }
}

forEachEngine((engine: EngineUnderTest) => {
  describe(`uploads when the service is killed ${kills} times (seed ${seed})`, () => {
    it('leave no orphan file and no row without its file; no accepted write is lost', {
      timeout: 120_000 + kills * 30_000,
    }, async () => {
      const place = await engine.migratedPlace()
      const { write, remove } = definitionFolder()
      const service = await realService({
        DATABASE_URL: place.url,
        PLINTH_DEFINITION: write('service', definition),
        PLINTH_THREADS: '1',
        PLINTH_MAX_UPLOADS: '16',
      })
      const random = sequence(seed)
      const ledger: Ledger = new Map()
      try {
        for (let life = 0; life < kills; life++) {
          await service.start()
          await service.token()
          const before = ledger.size
          const working = Array.from({ length: clients }, () => workUntilKilled(service, ledger, random))
          const ended = Promise.allSettled(working)
          await Promise.race([ended, eventually('a row is created', async () => ledger.size > before)])
          await pause(random() * 300)
          await service.kill('SIGKILL')
          for (const { reason } of (await ended) as PromiseRejectedResult[])
            if (reason instanceof assert.AssertionError) throw reason
        }
        await service.start()
        await checkRows(service, ledger)
        await service.kill('SIGTERM')
        await checkStore(place.url, join(service.dataDir, 'results'))
        assert.ok(ledger.size >= kills, `only ${ledger.size} rows were created`)
      } finally {
        await service.remove()
        remove()
        await place.remove()
      }
    })
  })
})
