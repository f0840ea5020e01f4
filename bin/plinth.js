#!/usr/bin/env -S MALLOC_ARENA_MAX=2 node --max-semi-space-size=16
import * as module from 'node:module'
import { join } from 'node:path'

// Plain JavaScript, so that an older Node.js can parse this file and print the error.
const major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  process.stderr.write(
    `plinth requires Node.js 24 or newer; this is ${process.versions.node}.\n` +
      'In a checkout, `npm start` and `npx plinth` use the Node.js that `npm ci` installed.\n',
  )
  process.exit(2)
}
// libuv uses at most half of these threads for DNS lookups. With the default of four threads, two hanging lookups would
// block all others.
process.env.UV_THREADPOOL_SIZE ??= '16'
// Caches compiled code for later starts and worker threads, which saves time and memory. Node.js executes cached code,
// so only this user may have write access to the cache. Without a home directory, nothing is cached.
const { XDG_CACHE_HOME, HOME } = process.env
const cacheFolder = XDG_CACHE_HOME || (HOME && join(HOME, '.cache'))
if (cacheFolder) process.env.NODE_COMPILE_CACHE ??= join(cacheFolder, 'plinth')
if (process.env.NODE_COMPILE_CACHE) module.enableCompileCache?.()
const { loadProgram } = await import('./code.js')
await loadProgram('main')
