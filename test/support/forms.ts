/** A part of a form. An object is sent as JSON, a string as text, and a buffer as a file. */
export type Part = [name: string, content: object | string | Buffer, type?: string]
const boundary = 'a-boundary'
export const formHeaders = { 'content-type': `multipart/form-data; boundary=${boundary}` }

/** Returns a multipart/form-data body. The default Content-Type is JSON for an object and PDF for a file. */
export function form(...parts: Part[]): Buffer {
  const encoded = parts.flatMap(([name, content, type]) => {
    const isJson = typeof content === 'object' && !Buffer.isBuffer(content)
    const fileName = Buffer.isBuffer(content) ? '; filename="../scan.pdf"' : ''
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${fileName}\r\n`
    const typed = type ?? (isJson ? 'application/json' : Buffer.isBuffer(content) ? 'application/pdf' : undefined)
    const body = isJson ? JSON.stringify(content) : content
    return [head, typed ? `Content-Type: ${typed}\r\n\r\n` : '\r\n', body, '\r\n'].map((one) =>
      Buffer.from(one as string),
    )
  })
  return Buffer.concat([...encoded, Buffer.from(`--${boundary}--\r\n`)])
}
