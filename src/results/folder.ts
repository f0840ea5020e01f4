import { createHash } from 'node:crypto'
import { constants, mkdirSync } from 'node:fs'
import { type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ResultStore, ResultWriter } from './store.ts'

/** Results in a folder, and how to clean it up after a crash. */
export interface FolderResults extends ResultStore {
  /** Removes unfinished results last written before this instant (epoch ms), without it all; returns how many. */
  sweepTemporary: (before?: number) => Promise<number>
}

const keyForm = /^[A-Za-z0-9_-]+(\.[a-z]+)?$/
const temporaryForm = /^\..+\.part$/
const blockBytes = 262_144
const encoder = new TextEncoder()

/** Keeps results in a folder of its own (0700, files 0600), which it creates. */
export function folderResults(folder: string): FolderResults {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const pathOf = (key: string) => {
    if (!keyForm.test(key)) throw new TypeError('A result key holds letters, digits, _ and - and one extension')
    return join(folder, key)
  }
  return {
    create: async (key) => {
      const path = pathOf(key)
      // No key begins with a dot, so a temporary name can neither be opened nor meet a result.
      const temporary = join(folder, `.${key}.part`)
      return fileWriter(await open(temporary, 'wx', 0o600), { temporary, path, folder })
    },
    open: async (key, range) => (await open(pathOf(key))).createReadStream(range),
    remove: async (key) => rm(pathOf(key), { force: true }),
    sweepTemporary: (before = Number.POSITIVE_INFINITY) => sweep(folder, before),
  }
}

interface Names {
  temporary: string
  path: string
  folder: string
}

/** Gathers chunks in blocks, hashes them, and keeps one block's write under way while the next one fills. */
function fileWriter(file: FileHandle, { temporary, path, folder }: Names): ResultWriter {
  const hash = createHash('sha256')
  // Two blocks for the whole file: a buffer for each chunk would fill the memory faster than it is collected.
  let block = Buffer.allocUnsafeSlow(blockBytes)
  let spare = Buffer.allocUnsafeSlow(blockBytes)
  let filled = 0
  let sizeBytes = 0
  let writing: Promise<void> = Promise.resolve()
  let done = false

  async function flush(): Promise<void> {
    const full = block.subarray(0, filled)
    hash.update(full)
    sizeBytes += filled
    await writing
    writing = file.writeFile(full)
    // Its failure is met by whoever waits for it next.
    writing.catch(() => {})
    ;[block, spare, filled] = [spare, block, 0]
  }

  async function add(fill: (into: Buffer) => { filled: number; rest: boolean }): Promise<void> {
    for (let rest = true; rest; ) {
      const step = fill(block.subarray(filled))
      filled += step.filled
      rest = step.rest
      if (rest) await flush()
    }
  }

  return {
    write: (chunk) => add(typeof chunk === 'string' ? textFiller(chunk) : byteFiller(chunk)),
    finish: async () => {
      await flush()
      await writing
      await file.sync()
      await file.close()
      await rename(temporary, path)
      done = true
      await syncFolder(folder)
      return { sizeBytes, sha256: hash.digest('base64') }
    },
    discard: async () => {
      if (done) return
      done = true
      await writing.catch(() => {})
      await file.close().catch(() => {})
      await rm(temporary, { force: true })
    },
  }
}

/** Puts what is left of a text into a block, whole characters only. */
function textFiller(text: string) {
  let left = text
  return (into: Buffer) => {
    const { read, written } = encoder.encodeInto(left, into)
    left = left.slice(read)
    return { filled: written, rest: left !== '' }
  }
}

function byteFiller(bytes: Buffer) {
  let left = bytes
  return (into: Buffer) => {
    const filled = left.copy(into)
    left = left.subarray(filled)
    return { filled, rest: left.length > 0 }
  }
}

/** A new name survives a power cut only once its folder is on disk too. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  await handle.sync().finally(() => handle.close())
}

async function sweep(folder: string, before: number): Promise<number> {
  let removed = 0
  for (const name of await readdir(folder)) {
    if (!temporaryForm.test(name)) continue
    const path = join(folder, name)
    // Its writer may finish or discard it meanwhile.
    const found = await stat(path).catch(() => undefined)
    if (!found || found.mtimeMs >= before) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}
