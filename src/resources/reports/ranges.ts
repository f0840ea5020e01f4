import type { ByteRange } from '../../results/store.ts'

const singleRange = /^bytes=[\t ]*(\d*)-(\d*)[\t ]*$/i

/**
 * The part that a Range header asks for (RFC 9110 §14.1.2). Undefined means all of it: without the header, and for
 * other units, several ranges and malformed ones, which may be ignored.
 */
export function rangeOf(header: string | undefined, sizeBytes: number): ByteRange | 'unsatisfiable' | undefined {
  const found = singleRange.exec(header ?? '')
  if (!found) return undefined
  const [, first, last] = found
  if (first === '') return suffix(last as string, sizeBytes)
  const start = Number(first)
  const end = last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1)
  if (last !== '' && Number(last) < start) return undefined
  return start < sizeBytes ? { start, end } : 'unsatisfiable'
}

function suffix(length: string, sizeBytes: number): ByteRange | 'unsatisfiable' | undefined {
  if (length === '') return undefined
  const wanted = Math.min(Number(length), sizeBytes)
  return wanted > 0 ? { start: sizeBytes - wanted, end: sizeBytes - 1 } : 'unsatisfiable'
}
