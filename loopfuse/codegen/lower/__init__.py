"""The stages of code generation, which call its rooms: a LoopTree as a module, as LLVM IR, as PTX or an object."""
