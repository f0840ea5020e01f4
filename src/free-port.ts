import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** A port the system chose and nobody listens on: tokens and links name it, so it must be known before listening. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
