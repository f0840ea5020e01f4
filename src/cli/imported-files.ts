import { registerHooks } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** The files of a definition, collected while it is loaded. */
export interface TrackedImports {
  /** The definition's file and the files that it imports, except those of packages. */
  files: ReadonlySet<string>
  stop: () => void
}

/**
 * Collects the files that a definition imports until `stop` is called. Includes missing files that it imports by a
 * relative path.
 */
export function trackImports(file: string): TrackedImports {
  const files = new Set([file])
  const urls = new Set([pathToFileURL(file).href])
  const hook = registerHooks({
    resolve: (specifier, context, next) => {
      const isOwn = context.parentURL !== undefined && urls.has(context.parentURL)
      if (!isOwn || !/^(\.|\/|#|file:)/.test(specifier)) return next(specifier, context)
      // Added before the import is resolved, which fails if the file is missing.
      if (!specifier.startsWith('#')) files.add(fileURLToPath(new URL(specifier, context.parentURL)))
      const resolved = next(specifier, context)
      if (!resolved.url.startsWith('file:') || resolved.url.includes('/node_modules/')) return resolved
      urls.add(resolved.url)
      files.add(fileURLToPath(resolved.url))
      return resolved
    },
  })
  return { files, stop: () => hook.deregister() }
}
