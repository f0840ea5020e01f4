import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { localCertificates } from '../../src/tls/certificates.ts'
import type { Program, Programs } from './processes.ts'

export const proxyNames = ['nginx', 'caddy', 'haproxy', 'haproxy-passthrough'] as const
export type ProxyName = (typeof proxyNames)[number]

export interface ProxyOptions {
  /** The ports for HTTPS and for plain HTTP. */
  port: number
  httpPort: number
  /** The ports of the nodes; exactly two for HAProxy. */
  nodes: readonly number[]
  /** The ports on which the nodes redirect to HTTPS, for `haproxy-passthrough`. */
  redirects?: readonly number[]
}

const host = '127.0.0.1'

/** Writes a TLS certificate for localhost in the formats that the proxies read, and returns the paths. */
export async function proxyCertificate(folder: string) {
  const { key, cert, authorityFile } = await localCertificates(join(folder, 'certificates'), [], Date.now)
  const file = (name: string, text: string) => {
    const path = join(folder, 'certificates', name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }
  return {
    authorityFile,
    chain: file('chain.pem', cert),
    key: file('key.pem', key),
    both: file('haproxy.pem', cert + key),
  }
}

/** Starts a proxy with its sample configuration in deploy/, adapted to this machine. */
export async function startProxy(
  programs: Programs,
  name: ProxyName,
  options: ProxyOptions,
): Promise<{ program: Program; authorityFile: string }> {
  const { command, authorityFile } = await proxies[name](programs.folder, options)
  const { folder } = programs
  const program = programs.add({
    name,
    command: () => command,
    env: {
      ...process.env,
      ...{ PLINTH_SITE: 'localhost', PLINTH_NODES: options.nodes.map((node) => `${host}:${node}`).join(' ') },
      ...{ XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    },
    isReady: () => handshakes(options.port),
  })
  await program.start()
  return { program, authorityFile }
}

/** Returns whether a port accepts connections. */
export const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, host, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })

/**
 * Returns whether a program completes TLS handshakes on a port. Caddy does so only once it has created its certificate.
 */
const handshakes = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connectTls({ port, host, servername: 'localhost', rejectUnauthorized: false }, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })

type Configure = (folder: string, options: ProxyOptions) => Promise<{ command: string[]; authorityFile: string }>

const proxies: Record<ProxyName, Configure> = {
  nginx: async (folder, { port, httpPort, nodes }) => {
    const { chain, key, authorityFile } = await proxyCertificate(folder)
    const server = (address: string | number) => `server ${address} max_fails=3 fail_timeout=2s;`
    const site = writeSample(folder, 'nginx.conf', [
      [server('10.0.0.11:8443'), nodes.map((node) => server(`${host}:${node}`)).join('\n  ')],
      [server('10.0.0.12:8443'), ''],
      ['listen 80;', `listen ${host}:${httpPort};`],
      ['listen 443 ssl http2;', `listen ${host}:${port} ssl http2;`],
      ['server_name api.example.com;', 'server_name localhost;'],
      ['/etc/plinth/chain.pem', chain],
      ['/etc/plinth/key.pem', key],
    ])
    const file = join(folder, 'nginx-main.conf')
    writeFileSync(file, nginxMain(folder, site))
    return { command: ['nginx', '-c', file], authorityFile }
  },
  caddy: async (folder, { port, httpPort }) => {
    const global = ['admin off', 'skip_install_trust', `http_port ${httpPort}`, `https_port ${port}`]
    const file = writeSample(folder, 'Caddyfile', [
      ['# Port 80 redirects to HTTPS.\n', `{\n${global.join('\n')}\n}\n`],
      ['{$PLINTH_SITE:api.example.com} {', `{$PLINTH_SITE:api.example.com} {\nbind ${host}`],
    ])
    // Caddy creates this file on startup, along with its own certificate authority.
    const authorityFile = join(folder, 'caddy', 'pki', 'authorities', 'local', 'root.crt')
    return { command: ['caddy', 'run', '--adapter', 'caddyfile', '--config', file], authorityFile }
  },
  haproxy: async (folder, { port, httpPort, nodes: [one, two] }) => {
    const { both, authorityFile } = await proxyCertificate(folder)
    const file = writeSample(folder, 'haproxy.cfg', [
      ['bind :80', `bind ${host}:${httpPort}`],
      ['bind :443', `bind ${host}:${port}`],
      ['/etc/plinth/haproxy.pem', both],
      ['10.0.0.11:8443', `${host}:${one}`],
      ['10.0.0.12:8443', `${host}:${two}`],
    ])
    return { command: ['haproxy', '-db', '-f', file], authorityFile }
  },
  'haproxy-passthrough': async (folder, { port, httpPort, nodes: [one, two], redirects: [first, second] = [] }) => {
    const { authorityFile } = await proxyCertificate(folder)
    const file = writeSample(folder, 'haproxy-passthrough.cfg', [
      ['bind :80', `bind ${host}:${httpPort}`],
      ['bind :443', `bind ${host}:${port}`],
      ['default-server check port 8080', 'default-server check'],
      ['10.0.0.11:8443', `${host}:${one} port ${first}`],
      ['10.0.0.12:8443', `${host}:${two} port ${second}`],
      ['10.0.0.11:8080', `${host}:${first}`],
      ['10.0.0.12:8080', `${host}:${second}`],
    ])
    return { command: ['haproxy', '-db', '-f', file], authorityFile }
  },
}

/**
 * Copies a file from deploy/ to a folder, applies the replacements, and returns the new path. Throws if the file does
 * not contain a text to replace, so that the replacements stay in sync with the sample.
 */
function writeSample(folder: string, name: string, replacements: readonly (readonly [string, string])[]): string {
  let text = readFileSync(fileURLToPath(new URL(`../../deploy/${name}`, import.meta.url)), 'utf8')
  for (const [sought, replacement] of replacements) {
    if (!text.includes(sought)) throw new Error(`deploy/${name} does not contain ${sought}`)
    text = text.replaceAll(sought, replacement)
  }
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}

/** Returns the nginx configuration around deploy/nginx.conf. With it, nginx writes only to the folder. */
const nginxMain = (folder: string, site: string): string => `
daemon off;
worker_processes 2;
pid ${folder}/nginx.pid;
error_log stderr warn;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 1024; }
http {
  access_log ${folder}/nginx-access.log;
  client_body_temp_path ${folder}/nginx-body;
  proxy_temp_path ${folder}/nginx-proxy;
  fastcgi_temp_path ${folder}/nginx-fastcgi;
  uwsgi_temp_path ${folder}/nginx-uwsgi;
  scgi_temp_path ${folder}/nginx-scgi;
  include ${site};
}
`
