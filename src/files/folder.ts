import { createHash } from 'node:crypto'
import { constants, mkdirSync } from 'node:fs'
import { access, type FileHandle, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { blocks } from './blocks.ts'
import { checkKey, isKey, type ResultStore, type ResultWriter } from './store.ts'

const temporaryForm = /^\..+\.part$/
const blockBytes = 262_144
/**
 * A small read buffer, because sent buffers stay in memory until the next garbage collection, and their size does not
 * trigger one.
 */
const readBytes = 16_384

/** Stores results in a dedicated folder (0700, files 0600), which it creates. */
export function folderResults(folder: string): ResultStore {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const pathOf = (key: string) => {
    checkKey(key)
    return join(folder, key)
  }
  // No key starts with a dot, so a temporary file can neither be opened as a result nor conflict with a result's name.
  const temporaryOf = (key: string) => join(folder, `.${key}.part`)
  return {
    create: async (key) => {
      const path = pathOf(key)
      const temporary = temporaryOf(key)
      return fileWriter(await open(temporary, 'wx', 0o600), { temporary, path, folder })
    },
    open: async (key, range) => (await open(pathOf(key))).createReadStream({ ...range, highWaterMark: readBytes }),
    keys: async () => (await readdir(folder)).filter(isKey),
    remove: async (key) => rm(pathOf(key), { force: true }),
    abandon: async (key) => {
      checkKey(key)
      await rm(temporaryOf(key), { force: true })
    },
    sweepTemporary: (before = Number.POSITIVE_INFINITY) => sweep(folder, before),
    probe: () => access(folder, constants.W_OK | constants.X_OK),
    space: async () => {
      const { bavail, blocks: total, bsize } = await statfs(folder)
      return { freeBytes: bavail * bsize, totalBytes: total * bsize }
    },
  }
}

interface Names {
  temporary: string
  path: string
  folder: string
  /** Moves the finished file to its final path; by default, replaces any existing file. */
  place?: (temporary: string, path: string) => Promise<void>
}

/**
 * Writes a file under a temporary name until it is finished. Hashes blocks, and writes each block while the next one
 * fills.
 */
export function fileWriter(file: FileHandle, { temporary, path, folder, place = rename }: Names): ResultWriter {
  const hash = createHash('sha256')
  let sizeBytes = 0
  let writing: Promise<void> = Promise.resolve()
  let done = false

  async function flush(full: Buffer): Promise<void> {
    hash.update(full)
    sizeBytes += full.length
    await writing
    writing = file.writeFile(full)
    // The next `await` on `writing` reports the failure.
    writing.catch(() => {})
  }
  const gathered = blocks(blockBytes, flush)

  return {
    write: gathered.write,
    finish: async () => {
      await flush(gathered.rest())
      await writing
      await file.sync()
      await expectSize(file, sizeBytes)
      await file.close()
      await place(temporary, path)
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
    sizeBytes: () => sizeBytes + gathered.rest().length,
  }
}

/**
 * Throws if the file has the wrong size, so that no report is completed after the file system has silently lost a
 * write.
 */
async function expectSize(file: FileHandle, sizeBytes: number): Promise<void> {
  const { size } = await file.stat()
  if (size !== sizeBytes) throw new Error(`The file has ${size} bytes, but ${sizeBytes} were written`)
}

/** Syncs the folder, because otherwise a new file name may not survive a power failure. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  await handle.sync().finally(() => handle.close())
}

/** Ignores a missing file, because its writer may have just finished or discarded it; rethrows other errors. */
function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

async function sweep(folder: string, before: number): Promise<number> {
  let removed = 0
  for (const name of await readdir(folder)) {
    if (!temporaryForm.test(name)) continue
    const path = join(folder, name)
    const found = await stat(path).catch(unlessGone)
    if (!found || found.mtimeMs >= before) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}
