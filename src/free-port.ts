import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** A free port chosen by the system: tokens and links contain it, so it must be known before listening. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
