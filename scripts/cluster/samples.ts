import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Writes a file of deploy/ to `target` with other addresses and paths. Throws if a text to replace does not occur, so that
 * each replacement stays in step with the sample.
 */
export function writeSample(name: string, target: string, replacements: readonly (readonly [string, string])[]): void {
  let text = readFileSync(fileURLToPath(new URL(`../../deploy/${name}`, import.meta.url)), 'utf8')
  for (const [sought, replacement] of replacements) {
    if (!text.includes(sought)) throw new Error(`deploy/${name} does not contain ${sought}`)
    text = text.replaceAll(sought, replacement)
  }
  writeFileSync(target, text)
}

/** The part of nginx's configuration that is outside deploy/nginx.conf: everything that nginx writes is in `folder`. */
export const nginxConfiguration = (folder: string, site: string): string => `
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
