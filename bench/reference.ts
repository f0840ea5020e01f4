import { resolve } from 'node:path'
import { freePort } from '../src/start.ts'
import { pinned, serverCore } from './machine.ts'
import type { Options } from './options.ts'
import type { Service } from './service.ts'
import { answerOf, type Target } from './target.ts'
import { environment, profiling, startReady, type Workplace } from './workplace.ts'

/** Bodies that the service has answered with; the reference answers the same bytes. */
export interface Samples {
  read: string
  page: string
  created: string
}

const program = resolve(import.meta.dirname, 'bare.ts')

/** Starts bare Fastify and makes sure that it answers the samples, byte for byte. */
export async function startReference(
  place: Workplace,
  { tls, profile }: Options,
  pin: boolean,
  service: Service,
  { read, page, created }: Samples,
): Promise<Target> {
  const port = await freePort()
  const settings = { BARE_PORT: String(port), BARE_ANSWERS: `{"read":${read},"page":${page},"created":${created}}` }
  const env = environment({ ...settings, ...(tls && { BARE_PEM: service.pemFile }) })
  const command = pinned(pin, serverCore, [process.execPath, program])
  const child = await startReady(place, command, { ...env, ...(profile && profiling('reference')) })
  const reference = { name: 'reference' as const, pid: child.pid as number, port, tls }
  const json = { 'content-type': 'application/json' }
  const body = '{"name":"x","price":1.15}'
  const readBack = await answerOf(reference, 200, { method: 'GET', path: '/products/1' })
  const pageBack = await answerOf(reference, 200, { method: 'GET', path: '/products?limit=50' })
  const createdBack = await answerOf(reference, 201, { method: 'POST', path: '/products', headers: json, body })
  if (readBack.body !== read || pageBack.body !== page || createdBack.body !== created)
    throw new Error('The reference answers other bytes')
  return reference
}
