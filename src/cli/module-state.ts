import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

/**
 * An unindented declaration is at module level. A constant that holds an empty collection is state, because it is
 * useless unless code fills it.
 */
const declarations = [
  /^(?:export )?(?:let|var) ([\w$]+)/,
  /^(?:export )?const ([\w$]+)(?:: [^;]+)? = (?:new (?:Map|Set|WeakMap|WeakSet)(?:<.*>)?\(\)|\[\]|\{\})(?: as [^=]+)?;?$/,
]
const allowed = /\/\/ *per thread\b/

/**
 * Returns a module's variables, and its constants that hold an empty array, object, `Map` or `Set`, with their line
 * numbers. Matches only the source text, so it finds only common forms of declarations. The comment `// per thread`
 * exempts a line.
 */
export function moduleState(source: string): { name: string; line: number }[] {
  const found: { name: string; line: number }[] = []
  for (const [at, text] of source.split(/\r?\n/).entries()) {
    const [code = ''] = text.split(' // ')
    const name = declarations.map((declaration) => declaration.exec(code.trimEnd())?.[1]).find(Boolean)
    if (name !== undefined && !allowed.test(text)) found.push({ name, line: at + 1 })
  }
  return found
}

/**
 * Prints a warning for each module-level variable in these files, because its value differs between threads and nodes.
 */
export function warnOfModuleState(files: Iterable<string>): void {
  for (const file of [...files].filter((file) => /\.[cm]?[jt]s$/.test(file) && existsSync(file)))
    for (const { name, line } of moduleState(readFileSync(file, 'utf8')))
      process.stderr.write(
        `plinth: ${relative(process.cwd(), file)}:${line}: \`${name}\` has its own value in each serving thread and node; ` +
          'keep shared state in rows, or mark the line with // per thread\n',
      )
}
