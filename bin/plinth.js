#!/usr/bin/env -S node --max-semi-space-size=8 --heap-growing-percent=40
import * as module from 'node:module'

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
// Compiled code is kept from one start to the next: a quicker start in less memory.
module.enableCompileCache?.()
const { load } = await import('./code.js')
await load('main')
