import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import { eventually } from './service.ts'

export type CacheName = 'nginx' | 'varnish'

/** A shared cache in front of a service. */
export interface SharedCache {
  /** The base URL of the cache. */
  base: string
  stop: () => Promise<void>
}

const programs: Record<CacheName, { command: string; version: string; start: typeof startNginx }> = {
  nginx: { command: 'nginx', version: '-v', start: startNginx },
  varnish: { command: 'varnishd', version: '-V', start: startVarnish },
}

/** Returns the reason to skip tests that need the cache, or false if its executable is in PATH. */
export const cacheMissing = (name: CacheName): string | false => {
  const { command, version } = programs[name]
  return spawnSync(command, [version]).status === 0 ? false : `${command} is not installed`
}

/** Starts a real cache on a free port in front of the plain HTTP service on port `origin`. */
export async function sharedCache(name: CacheName, origin: number): Promise<SharedCache> {
  const folder = mkdtempSync(join(tmpdir(), `plinth-${name}-`))
  const port = await freePort()
  const child = programs[name].start(folder, port, origin)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk))
  const base = `http://127.0.0.1:${port}`
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    }
    rmSync(folder, { recursive: true, force: true })
  }
  const isUp = async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${output}`)
    // Health responses are never stored.
    const answer = await request(`${base}/livez`, { headers: { 'x-forwarded-proto': 'https' } }).catch(() => undefined)
    await answer?.body.dump()
    return answer?.statusCode === 200
  }
  await eventually(`${name} answers`, isUp).catch(async (error) => {
    await stop()
    throw error
  })
  return { base, stop }
}

/**
 * Uses only the path and query as the cache key. The response headers determine whether and for how long a response is
 * stored.
 */
function startNginx(folder: string, port: number, origin: number): ChildProcess {
  const file = join(folder, 'nginx.conf')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  writeFileSync(
    file,
    `user ${userInfo().username} ${userInfo().gid === 0 ? 'root' : ''};
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  ${temporary.map((part) => `${part}_temp_path ${folder}/${part};`).join('\n  ')}
  proxy_cache_path ${folder}/cache keys_zone=shared:1m;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://127.0.0.1:${origin};
      proxy_set_header X-Forwarded-Proto https;
      proxy_cache shared;
      proxy_cache_key $request_uri;
      proxy_cache_revalidate on;
    }
  }
}
`,
  )
  return spawn('nginx', ['-c', file, '-p', folder, '-e', 'stderr', '-g', 'daemon off;'])
}

function startVarnish(folder: string, port: number, origin: number): ChildProcess {
  const at = ['-F', '-j', 'none', '-n', join(folder, 'work'), '-a', `127.0.0.1:${port}`, '-b', `127.0.0.1:${origin}`]
  return spawn('varnishd', [...at, '-s', 'malloc,16m'])
}
