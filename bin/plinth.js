#!/usr/bin/env -S MALLOC_ARENA_MAX=2 node --max-semi-space-size=16
import * as module from 'node:module'
import { join } from 'node:path'

// Plain JavaScript on purpose: an older Node must be able to read this file to say what is wrong.
const major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  process.stderr.write(
    `plinth needs Node.js 24 or newer, this is ${process.versions.node}.\n` +
      'In a checkout, `npm start` or `npx plinth` use the Node that `npm ci` installed.\n',
  )
  process.exit(2)
}
// Names are looked up by half of these threads at most: with the usual four, two that nobody answers for hold up all others.
process.env.UV_THREADPOOL_SIZE ??= '16'
// Compiled code is kept from one start to the next, for threads, too: a quicker start in less memory. Only where nobody else
// writes, as what lies there is run: without a home it is not kept.
const { XDG_CACHE_HOME, HOME } = process.env
const cacheFolder = XDG_CACHE_HOME || (HOME && join(HOME, '.cache'))
if (cacheFolder) process.env.NODE_COMPILE_CACHE ??= join(cacheFolder, 'plinth')
if (process.env.NODE_COMPILE_CACHE) module.enableCompileCache?.()
const { load } = await import('./code.js')
await load('main')
