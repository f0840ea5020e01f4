import { loopback } from '../config/address.ts'
import { baseUrlOf } from '../config/config.ts'
import { unsafeOptions } from '../config/production-checks.ts'
import { type Check, fail, type HealthContext, pass, unlessDevelopment, warn } from './check.ts'

const dayMs = 86_400_000
const noticeDays = 90

/** The oldest release that passes the check; earlier releases of the same line lack security fixes. */
const minNode = [24, 17] as const

/** The last day of support for each Node.js release line that has long-term support. */
const nodeEnds: Readonly<Record<number, string>> = { 24: '2028-04-30', 26: '2029-04-30' }

/** Checks of the process and its environment. */
export const runtimeChecks: readonly Check<HealthContext>[] = [
  {
    id: 'runtime.node',
    area: 'runtime',
    title: 'Node.js release',
    rule: 'Warns below 24.17, if the release line has no long-term support, or if its support ends within 90 days',
    run: ({ runtime: { versions }, now }) => {
      const [major = 0, minor = 0] = versions.node.split('.').map(Number)
      const end = nodeEnds[major]
      const cure = `Install a release with long-term support: Node.js ${Object.keys(nodeEnds).join(' or ')}`
      if (end === undefined) return warn(`${versions.node} has no known long-term support`, cure)
      if (major === minNode[0] && minor < minNode[1]) {
        return warn(`${versions.node} lacks security fixes`, `Install Node.js ${minNode.join('.')} or newer`)
      }
      const leftMs = Date.parse(end) + dayMs - now()
      if (leftMs < 0) return warn(`${versions.node}; support ended on ${end}`, cure)
      if (leftMs < noticeDays * dayMs) return warn(`${versions.node}; support ends on ${end}`, cure)
      return pass(`${versions.node}; supported until ${end}`)
    },
  },
  {
    id: 'runtime.options',
    area: 'runtime',
    title: 'Node.js options',
    rule: 'Fails in production if an option removes a safeguard of Node.js; warns in development',
    run: ({ runtime, config }) => {
      const unsafe = unsafeOptions(runtime)
      if (unsafe.length === 0) return pass('No option removes a safeguard')
      return unlessDevelopment(config)(unsafe.join('; '), 'Remove the option or the environment variable')
    },
  },
  {
    id: 'runtime.user',
    area: 'runtime',
    title: 'Operating system user',
    rule: 'Warns in production if the process runs as root',
    run: ({ runtime: { getuid }, config }) => {
      const uid = getuid?.()
      if (uid === undefined) return null
      if (uid !== 0 || !config.production) return pass(uid === 0 ? 'root' : `user id ${uid}`)
      return warn('The process runs as root', 'Run the service and its commands as a user of their own')
    },
  },
  {
    id: 'runtime.profile',
    area: 'runtime',
    title: 'Profile',
    rule: 'Fails if the profile is development and the service is reachable from other machines',
    run: ({ config }) => {
      if (config.production) return pass('production')
      const { host } = config.http
      const name = new URL(baseUrlOf(config)).hostname
      const isLocal = (loopback.test(host) || host === '::1') && loopback.test(name)
      if (isLocal) return pass('development, for this machine only')
      return fail(
        `development, but the service listens on ${host} and its URL is ${baseUrlOf(config)}`,
        'Set PLINTH_PROFILE=production',
      )
    },
  },
]
