import { randomBytes } from 'node:crypto'
import { freePort } from '../../src/serving/listeners.ts'
import { addNodes, type BootstrapClient, type Node, sharedSettings, startNode } from './nodes.ts'
import type { ClusterOptions } from './options.ts'
import type { Program, Programs } from './processes.ts'
import { startProxy } from './proxies.ts'
import { startPostgres, startRedis, startResults } from './servers.ts'

/** A running cluster. */
export interface Cluster {
  baseUrl: string
  authorityFile: string
  client: BootstrapClient
  nodes: readonly Node[]
  postgres: Program
  /** Lines to print: the names and addresses of the programs. */
  addresses: readonly (readonly [name: string, text: string])[]
  /** Nodes that exited without being stopped. */
  unexpectedExits: readonly string[]
}

/** Starts all programs of a cluster one after another, each as soon as the previous one is ready; nginx comes
 * last. */
export async function startCluster(
  programs: Programs,
  { nodes: count, split }: Pick<ClusterOptions, 'nodes' | 'split'>,
  code: string,
): Promise<Cluster> {
  const postgres = await startPostgres(programs)
  const redis = await startRedis(programs)
  const results = await startResults(programs)
  const port = await freePort()
  const client = { id: 'cluster', secret: randomBytes(24).toString('base64url') }
  const unexpectedExits: string[] = []
  const env = { ...sharedSettings(port, client), DATABASE_URL: postgres.url, REDIS_URL: redis.url, ...results.env }
  const onUnexpectedExit = (text: string) => void unexpectedExits.push(text)
  const roles = Array.from({ length: count }, (_, at) =>
    !split ? 'api,auth,worker' : at === count - 1 ? 'worker' : 'api,auth',
  )
  const nodes = await addNodes(programs, { roles, code, env, onUnexpectedExit })
  for (const node of nodes) await startNode(node)
  const served = nodes.filter(({ roles }) => roles.includes('api')).map((node) => node.port)
  const { authorityFile } = await startProxy(programs, 'nginx', { port, httpPort: await freePort(), nodes: served })
  const baseUrl = `https://localhost:${port}`
  const addresses = [
    ['folder', programs.folder],
    ['service', `${baseUrl} (nginx), trust ${authorityFile}`],
    ['client', `PLINTH_CLIENT_ID=${client.id} PLINTH_CLIENT_SECRET=${client.secret}`],
    ...nodes.map(
      ({ name, port, roles, program }) => [name, `http://127.0.0.1:${port} ${roles}, pid ${program.pid()}`] as const,
    ),
    ['postgres', postgres.url],
    ['redis', redis.url],
    [
      'results',
      results.program ? `S3 at ${results.env.AWS_ENDPOINT_URL}` : `a folder, because versitygw is not installed`,
    ],
  ] as const
  return { baseUrl, authorityFile, client, nodes, postgres: postgres.program, addresses, unexpectedExits }
}
