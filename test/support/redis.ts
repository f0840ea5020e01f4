import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { freePort } from '../../src/serving/listeners.ts'
import { eventually } from './service.ts'

/** The reason to skip tests that need Redis, or false if `redis-server` is in PATH. */
export const redisMissing: string | false =
  spawnSync('redis-server', ['--version']).status === 0 ? false : 'redis-server is not installed'

/** A real Redis server without persistence, which a test can kill or suspend. */
export interface RedisUnderTest {
  url: string
  start: () => Promise<void>
  /** Kills the server without a clean shutdown. */
  kill: () => Promise<void>
  /** Suspends the server but leaves its connections open; `resume` lets it continue. */
  pause: () => void
  resume: () => void
  /** Sends one command and returns its reply. */
  say: (...command: string[]) => Promise<string>
}

/** Starts a Redis server for this test on a free port; call `kill` at the end. */
export async function redisServer(): Promise<RedisUnderTest> {
  const port = await freePort()
  let child: ChildProcess
  const say = async (...command: string[]) => {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(`${command.join(' ')}\r\n`)
    const [answer] = await once(socket, 'data')
    socket.destroy()
    return String(answer)
  }
  const start = async () => {
    const settings = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
    child = spawn('redis-server', settings, { stdio: 'ignore' })
    await eventually('Redis answers', () =>
      say('PING').then(
        (answer) => answer.startsWith('+PONG'),
        () => false,
      ),
    )
  }
  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    say,
  }
}
