import { createServer, type Socket } from 'node:net'

/**
 * A receiver of webhooks that does next to nothing, so that it is never the busier side: it takes each request to its end
 * and answers 204. Told by RECEIVER_PORT.
 */
const answer = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n')
const headEnd = Buffer.from('\r\n\r\n')

const serve = (socket: Socket): void => {
  let pending: Buffer = Buffer.alloc(0)
  socket.setNoDelay(true).on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
    for (let length = requestLength(pending); length > 0; length = requestLength(pending)) {
      pending = pending.subarray(length)
      socket.write(answer)
    }
  })
}

/** Bytes of the first request, or 0 while it is not whole. */
function requestLength(bytes: Buffer): number {
  const head = bytes.indexOf(headEnd)
  if (head < 0) return 0
  const length = head + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(bytes.toString('latin1', 0, head))?.[1])
  return length <= bytes.length ? length : 0
}

createServer(serve).listen(Number(process.env.RECEIVER_PORT), '127.0.0.1', () => process.send?.('ready'))
process.on('SIGTERM', () => process.exit(0))
