const headEnd = Buffer.from('\r\n\r\n')
/** As the one HTTP library and the other spell it. */
const lengthNames = ['content-length', 'Content-Length'].map((name) => Buffer.from(`\r\n${name}: `))
const digit = (byte: number | undefined) => (byte ?? 0) - 48

/** The status of a response that starts here. */
export const statusOf = (bytes: Buffer): number => digit(bytes[9]) * 100 + digit(bytes[10]) * 10 + digit(bytes[11])

/**
 * Length of the response that starts here, 0 while its head is incomplete. Reads just what the two servers send: an
 * HTTP/1.1 head with a Content-Length, or 204 and 304 without content. Throws on anything else.
 */
export function lengthOf(bytes: Buffer): number {
  const end = bytes.indexOf(headEnd)
  if (end < 0) return 0
  const status = statusOf(bytes)
  if (status === 204 || status === 304) return end + 4
  const found = lengthNames.map((name) => ({ at: bytes.indexOf(name), name })).find(({ at }) => at >= 0 && at < end)
  if (!found) throw new Error(`An answer without Content-Length: ${bytes.toString('latin1', 0, end)}`)
  let length = 0
  for (let at = found.at + found.name.length; bytes[at] !== 13; at++) length = length * 10 + digit(bytes[at])
  return end + 4 + length
}
