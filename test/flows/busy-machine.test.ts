import assert from 'node:assert/strict'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { connect } from 'node:tls'
import { busyNeighbours } from '../support/neighbours.ts'
import { type RealService, realService } from '../support/service.ts'

const parallel = 200
const rounds = 2
const paths = ['/products?limit=50', '/products', '/users', '/api/reports']

describe('a service on a machine with busy processors', () => {
  let service: RealService
  let endNeighbours = () => {}
  before(async () => {
    service = await realService()
    await service.start()
  })
  after(async () => {
    endNeighbours()
    await service.remove()
  })

  /** Sends a GET on its own connection and returns the status. */
  const statusOf = async (path: string): Promise<number> => {
    const socket = connect({ port: service.port, host: '127.0.0.1', rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    const lines = [`GET ${path} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${await service.token()}`]
    socket.write([...lines, 'Connection: close', '', ''].join('\r\n'))
    return Number((await text(socket)).slice(9, 12))
  }

  it(`200 for each of ${parallel} parallel requests; delays caused by other processes do not count as overload`, async () => {
    await service.token()
    endNeighbours = busyNeighbours(2)
    for (let round = 0; round < rounds; round++) {
      const statuses = Array.from({ length: parallel }, (_, at) => statusOf(paths[at % paths.length] as string))
      assert.deepEqual([...new Set(await Promise.all(statuses))], [200])
    }
  })
})
