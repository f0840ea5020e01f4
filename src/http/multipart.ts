import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { type MultipartError, make, type PartInfo } from 'multipasta'
import { Problem } from './problems/problem.ts'

/** The name of the form part that contains the resource as JSON. */
export const jsonPart = 'json'

/** A part of a form (RFC 7578). */
export interface FormPart {
  name: string
  /** The headers of the part; Content-Type is text/plain by default. */
  headers: Readonly<Record<string, string>>
  /** Returns the content; call it before the next part is read. Throws INVALID_INPUT if the body ends early. */
  chunks: () => AsyncGenerator<Buffer, void>
}

/**
 * Yields the parts of a multipart/form-data body in order, and reads the body only as fast as their content is
 * consumed. Skips unread content. Throws INVALID_INPUT for a malformed body.
 */
export async function* readForm(
  { headers }: Pick<FastifyRequest, 'headers'>,
  body: Readable,
  maxParts: number,
): AsyncGenerator<FormPart, void> {
  const events = eventsOf(headers['content-type'] ?? '', body, maxParts)
  for await (const event of events) {
    if (event !== null && !(event instanceof Uint8Array)) yield { ...headOf(event), chunks: () => contentOf(events) }
  }
}

async function* contentOf(events: AsyncGenerator<FormEvent, void>): AsyncGenerator<Buffer, void> {
  // Leaving a `for await` loop would close the generator, which still has to yield the remaining parts.
  for (;;) {
    const { value: chunk } = await events.next()
    if (!(chunk instanceof Uint8Array)) return
    yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
  }
}

/** A parser event: the headers of a part, a chunk of its content, or null at its end. */
type FormEvent = PartInfo | Uint8Array | null

async function* eventsOf(type: string, body: Readable, maxParts: number): AsyncGenerator<FormEvent, void> {
  try {
    const parser = formParser(type, maxParts)
    for await (const chunk of body.iterator({ destroyOnReturn: false })) yield* parser.write(chunk)
    yield* parser.end()
  } catch (error) {
    throw error instanceof Problem ? error : malformed(incomplete, error)
  }
}

/** Creates an incremental form parser. Its functions return the events found in the bytes parsed so far. */
function formParser(type: string, maxParts: number) {
  const events: FormEvent[] = []
  let isComplete = false
  const parser = make({
    ...{ headers: { 'content-type': type }, maxParts, isFile: () => true, onField: () => {} },
    onFile: (part) => {
      events.push(part)
      let isOpen = true
      return (chunk) => {
        // If the headers of a part are incomplete, multipasta reports the end of the previous part a second time.
        if (!isOpen) throw malformed(incomplete)
        isOpen = chunk !== null
        events.push(chunk)
      }
    },
    onError: (error) => {
      throw malformed(reasonOf(error, maxParts), error)
    },
    onDone: () => {
      isComplete = true
    },
  })
  let held: Buffer = Buffer.alloc(0)
  return {
    write: (chunk: Buffer): FormEvent[] => {
      // The bytes after the last boundary are ignored (RFC 2046 §5.1.1).
      if (isComplete) return []
      const bytes = held.length > 0 ? Buffer.concat([held, chunk]) : chunk
      const end = bytes.length - dashesAtEnd(bytes)
      held = bytes.subarray(end)
      parser.write(bytes.subarray(0, end))
      return events.splice(0)
    },
    end: (): FormEvent[] => {
      if (isComplete) return []
      parser.write(held)
      parser.end()
      if (!isComplete) throw malformed(incomplete)
      return events.splice(0)
    },
  }
}

/**
 * Returns the number of dashes at the end of a chunk, at most two. They are parsed with the next chunk, because
 * multipasta finds the end of a form only if both dashes after the last boundary are in one chunk.
 */
const dashesAtEnd = (bytes: Buffer) => (bytes.at(-1) !== 0x2d ? 0 : bytes.at(-2) === 0x2d ? 2 : 1)

const incomplete = 'is malformed or ended before it was complete'
const malformed = (how: string, cause?: unknown) => new Problem('INVALID_INPUT', `The form ${how}`, { cause })

function reasonOf(error: MultipartError, maxParts: number): string {
  if (error._tag === 'InvalidBoundary') return 'has no boundary in its Content-Type'
  return error._tag === 'ReachedLimit' ? `has more than ${maxParts} parts` : incomplete
}

/** Returns the name and the headers of a part. Throws INVALID_INPUT if it has no name, or a header twice. */
function headOf({ headers }: PartInfo): Pick<FormPart, 'name' | 'headers'> {
  const entries = Object.entries(headers).map(([header, value]): [string, string] => {
    if (typeof value !== 'string') throw malformed(`has a part with several headers ${header}`)
    return [header, value.trim()]
  })
  const all: Record<string, string> = { 'content-type': 'text/plain', ...Object.fromEntries(entries) }
  const name = nameIn(all['content-disposition'] ?? '')
  if (!name) throw malformed('has a part without Content-Disposition: form-data and a name')
  return { name, headers: all }
}

const parameter = /\s*;\s*([^\s=;]+)=("(?:[^"\\]|\\.)*"|[^\s";]*)(?=\s*(?:;|$))/gy

/**
 * Returns the name of a part; undefined if it has none. Reads no parameters after the name, because multipasta rejects
 * file names with certain characters, and browsers do not escape backslashes in them.
 */
function nameIn(disposition: string): string | undefined {
  const [type = ''] = disposition.split(';', 1)
  if (type.trim().toLowerCase() !== 'form-data') return undefined
  for (const [, key = '', value = ''] of disposition.slice(type.length).matchAll(parameter))
    if (key.toLowerCase() === 'name') return value.replace(/^"(.*)"$/, '$1')
  return undefined
}
