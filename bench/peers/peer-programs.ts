import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { freePort } from '../../src/serving/listeners.ts'
import type { Bench } from '../bench.ts'
import { pinned, serverCore } from '../cpu-and-memory.ts'
import { environment, startReady } from '../sandbox.ts'
import type { Peer, PeerProgram } from './peer.ts'
import { createProducts, type Product } from './products.ts'
import { startPocketBase } from './start-pocketbase.ts'

const pocketBase = process.env.POCKETBASE ?? ''
const nestPackages = ['@nestjs/core', 'better-sqlite3'].map((name) =>
  resolve(import.meta.dirname, 'node_modules', name, 'package.json'),
)

/** The peers, in the order of the rows. */
export const peerPrograms: PeerProgram[] = [
  {
    name: 'fastify-sqlite',
    title: 'Fastify + node:sqlite',
    missing: () => null,
    start: (bench, products) => startNode(bench, products, resolve(import.meta.dirname, 'fastify-sqlite.ts')),
  },
  {
    name: 'nest',
    title: 'NestJS + better-sqlite3',
    missing: () =>
      nestPackages.every((file) => existsSync(file)) ? null : 'run npm ci --prefix bench/peers to install its packages',
    start: async (bench, products) => startNode(bench, products, await buildNest()),
  },
  {
    name: 'pocketbase',
    title: 'PocketBase',
    missing: () => (existsSync(pocketBase) ? null : 'POCKETBASE is not set to the path of its program'),
    start: (bench, products) => startPocketBase(bench, products, resolve(pocketBase)),
  },
]

/** Starts a Node.js peer, which has the paths of the service, with the Node.js flags of the service. */
async function startNode({ sandbox, pin }: Bench, products: Iterable<Product>, program: string): Promise<Peer> {
  const [port, file] = [await freePort(), join(sandbox.folder, `${basename(program)}.db`)]
  createProducts(file, products)
  const flags = ['--max-semi-space-size=16']
  const command = pinned(pin, serverCore, ['env', 'MALLOC_ARENA_MAX=2', process.execPath, ...flags, program])
  const child = await startReady(sandbox, command, environment({ PEER_PORT: String(port), PEER_DATABASE: file }))
  return {
    ...{ name: 'reference', pid: child.pid as number, port, tls: false, created: 201 },
    list: (limit, after) => `/products?limit=${limit}&after=${after}`,
    translate: (request) => request,
    stop: () => sandbox.stop(child),
  }
}

/** Compiles the decorators of the NestJS peer, which Node.js does not support; returns the program. */
async function buildNest(): Promise<string> {
  const { build } = await import('rolldown')
  const file = resolve(import.meta.dirname, 'build/nest.js')
  await build({
    input: resolve(import.meta.dirname, 'nest.ts'),
    // Every package but the functions that the compiled decorators call.
    external: /^(?:[a-z]|@(?!oxc-project\/))/,
    ...{ platform: 'node', logLevel: 'warn', output: { file } },
  })
  return file
}
