import { spawnSync } from 'node:child_process'
import { DefinitionError } from '../startup-errors.ts'

const root = new URL('../..', import.meta.url).href
const checkLimitMs = 10_000

/** Returns the text of an error caused by a definition, including its location in the definition's files. */
export function definitionErrorText(error: unknown, path: string): string {
  if (error instanceof DefinitionError)
    return [`${path} cannot be served:`, error.message, ...ownFrames(error)].join('\n')
  return `${path} cannot be loaded: ${error instanceof SyntaxError ? syntaxErrorText(error, path) : traceOf(error)}`
}

/** Returns the frames of an error's stack before the first one in Node's module loader. */
function framesOf({ stack = '' }: Error): string[] {
  const frames = stack.split('\n').filter((line) => /^ {4}at /.test(line))
  const end = frames.findIndex((frame) => frame.includes('node:internal/modules'))
  return end === -1 ? frames : frames.slice(0, end)
}

/** Returns the frames in files outside this package. */
const ownFrames = (error: Error): string[] =>
  framesOf(error).filter((frame) => /[(\s]file:/.test(frame) && !isOfPackage(frame))

const isOfPackage = (frame: string): boolean =>
  ['src', 'dist', 'build', 'bin'].some((folder) => frame.includes(`${root}${folder}/`))

/** Returns the error message with the stack frames in the definition's files or, if there are none, with all frames. */
function traceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const [message] = (error.stack ?? error.message).split(/\n(?= {4}at )/)
  const own = ownFrames(error)
  return [message, ...(own.length > 0 ? own : framesOf(error))].join('\n')
}

/**
 * Returns the text of a syntax error, including its line. For a module, the error's stack does not contain the line.
 * Node.js prints the line when such an error ends a process, so this starts a process. No code runs, because Node.js
 * parses all imported modules first.
 */
function syntaxErrorText(error: SyntaxError, path: string): string {
  if (ownFrames(error).length > 0 || !/^SyntaxError/.test(error.stack ?? '')) return traceOf(error)
  const options = { encoding: 'utf8', timeout: checkLimitMs } as const
  const { stderr } = spawnSync(process.execPath, ['--no-warnings', path], options)
  const [printed] = stderr.split(/\n(?= {4}at )/)
  return printed?.includes(error.message) ? printed.trim() : traceOf(error)
}
