import assert from 'node:assert/strict'
import type { Bench, Measurement } from './bench.ts'
import { expectResponse, requestText } from './http.ts'
import type { Peer } from './peers/peer.ts'
import { peerPrograms } from './peers/peer-programs.ts'
import { distinct, measure, type RequestRow, rows } from './requests.ts'
import { productsUpTo, startService } from './service.ts'

const measured = ['get-random', 'list-20', 'list-100', 'mixed', 'create']
/** The service should respond to more requests than each peer. */
const goal = 1

/**
 * Compares the service with other back ends, which keep the same products in SQLite. Each starts on a database with the
 * same rows, beside a service of its own.
 */
export const peerRows: Measurement[] = peerPrograms.map((program) => {
  const name = `peer-${program.name}`
  return {
    name,
    isOptional: true,
    measure: async (bench) => {
      const skipped = bench.options.tls ? 'the peers support plain HTTP only' : program.missing()
      if (skipped !== null) return { name, title: program.title, skipped }
      const service = await startService(bench.sandbox, bench.options, bench.pin, { name })
      const peer = await program.start(bench, productsUpTo(bench.options.rows))
      await expectEquivalent(bench, peer)
      const results = []
      for (const row of measured.map((wanted) => rows.find(({ name }) => name === wanted) as RequestRow)) {
        const own = { ...peerRow(row, peer), name: `${name}-${row.name}`, title: `${row.title} ÷ ${program.title}` }
        results.push(await measure({ ...bench, service, reference: peer }, own, program.title))
      }
      await Promise.all([service.stop(), peer.stop()])
      return results
    },
  }
})

/** Returns a row of the service with the peer's form of the requests. */
function peerRow(row: RequestRow, peer: Peer): RequestRow {
  const limit = Number(/^list-(\d+)$/.exec(row.name)?.[1] ?? 0)
  return {
    ...row,
    floor: goal,
    referenceStatus: row.status === 201 ? peer.created : row.status,
    referenceRequests: async (headers, count, service) => {
      const pages = () => pagePaths(peer, limit, count).map((path) => requestText('GET', path, headers))
      return (limit > 0 ? pages() : await row.requests(headers, count, service)).map(peer.translate)
    },
  }
}

/** Returns as many successive pages as `pages` finds on the service. */
const pagePaths = (peer: Peer, limit: number, count: number) =>
  Array.from({ length: Math.min(distinct, Math.ceil(count / limit)) }, (_, at) => peer.list(limit, at * limit))

/** Throws unless the peer reads, lists, replaces and creates products, and rejects unknown ids and invalid products. */
async function expectEquivalent({ options }: Bench, peer: Peer): Promise<void> {
  const send = async (status: number, method: string, path: string, body?: object) => {
    const [, sent = '', own = ''] = /^(\w+) (\S+)/.exec(peer.translate(`${method} ${path} HTTP/1.1\r\n`)) ?? []
    const json = { 'content-type': 'application/json' }
    const request = { method: sent, path: own, headers: json, ...(body && { body: JSON.stringify(body) }) }
    return JSON.parse((await expectResponse(peer, status, request)).body)
  }
  const valuesOf = ({ name, price }: { name: string; price: number }) => ({ name, price })
  const products = [...productsUpTo(Math.min(40, options.rows))].map(valuesOf)
  assert.deepEqual(valuesOf(await send(200, 'GET', '/products/1')), products[0])
  await send(404, 'GET', `/products/${options.rows + 1}`)
  const page = JSON.parse((await expectResponse(peer, 200, { method: 'GET', path: peer.list(20, 20) })).body)
  assert.deepEqual((page.items ?? page).map(valuesOf), products.slice(20))
  await send(400, 'POST', '/products', { price: 1.5 })
  const changed = { name: 'Changed', price: 1.5 }
  await send(200, 'PUT', '/products/1', changed)
  assert.deepEqual(valuesOf(await send(200, 'GET', '/products/1')), changed)
  await send(200, 'PUT', '/products/1', products[0])
  assert.deepEqual(valuesOf(await send(peer.created, 'POST', '/products', changed)), changed)
}
