# Names Banyan's compilers and launcher to CMake's FindMPI: cmake -C PREFIX/share/cmake/banyan.cmake ...
# FindMPI looks for mpiexec before it looks at a compiler, in MPI_HOME and PATH: -DMPI_C_COMPILER alone does not choose it.
get_filename_component(_banyan_prefix "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(MPI_C_COMPILER "${_banyan_prefix}/bin/mpicc" CACHE FILEPATH "Banyan's compiler of C")
set(MPI_CXX_COMPILER "${_banyan_prefix}/bin/mpicxx" CACHE FILEPATH "Banyan's compiler of C++")
set(MPIEXEC_EXECUTABLE "${_banyan_prefix}/bin/mpiexec" CACHE FILEPATH "Banyan's launcher")
